"""The fourth schema: what became of the projections of definitions' tables."""

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what a table held when it was last counted."""
    text = sa.Text(collation="C") if op.get_bind().dialect.name == "postgresql" else sa.Text()
    op.add_column("definitions", sa.Column("stored_status", text))


def downgrade() -> None:
    """Refuse, as the schema before does."""
    raise NotImplementedError("a catalog does not go back to an older schema")
