"""The second schema: principals, tokens and grants; roots of a tenant's registered locations."""

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what a server asks of whoever calls it."""
    text = sa.Text(collation="C") if op.get_bind().dialect.name == "postgresql" else sa.Text()
    op.add_column("tenants", sa.Column("roots", text))
    op.create_table(
        "principals",
        sa.Column("tenant", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("is_admin", sa.Integer, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", text, primary_key=True),
        sa.Column("tenant", text, nullable=False),
        sa.Column("principal", text, nullable=False),
        sa.Column("digest", text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("expires_us", sa.BigInteger),
        sa.Column("used_us", sa.BigInteger),
    )
    op.create_table(
        "grants",
        sa.Column("id", text, primary_key=True),
        sa.Column("tenant", text, nullable=False),
        sa.Column("principal", text, nullable=False),
        sa.Column("action", text, nullable=False),
        sa.Column("pattern", text, nullable=False),
        sa.Column("external_type", text),
    )
    op.create_index("grants_of", "grants", ["tenant", "principal"])


def downgrade() -> None:
    """Refuse: an older release would let everybody in."""
    raise NotImplementedError("a catalog does not go back to an older schema")
