"""The third schema: replies to requests that may be sent again."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the replies that are kept for a day."""
    text = sa.Text(collation="C") if op.get_bind().dialect.name == "postgresql" else sa.Text()
    op.create_table(
        "replies",
        sa.Column("tenant", text, nullable=False),
        sa.Column("principal", text, nullable=False),
        sa.Column("key", text, nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("status", sa.Integer, nullable=False),
        sa.Column("content", text),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "principal", "key"),
    )
    op.create_index("replies_by_time", "replies", ["tenant", "at_us"])


def downgrade() -> None:
    """Refuse, as the schema before does."""
    raise NotImplementedError("a catalog does not go back to an older schema")
