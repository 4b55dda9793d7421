"""The first schema: tenants, namespaces, definitions and their changes."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables of an empty database."""
    is_postgres = op.get_bind().dialect.name == "postgresql"
    # Pages are cut by names, which need one order in every database.
    text = sa.Text(collation="C") if is_postgres else sa.Text()
    op.create_table(
        "info",
        sa.Column("catalog_id", text, primary_key=True),
        sa.Column("epoch", text, nullable=False),
    )
    op.create_table(
        "tenants",
        sa.Column("tenant", text, primary_key=True),
        sa.Column("head", sa.BigInteger, nullable=False),
        sa.Column("kept_from", sa.BigInteger, nullable=False),
        sa.Column("warehouse", text),
        sa.Column("created_us", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "namespaces",
        sa.Column("tenant", text, nullable=False),
        sa.Column("folded", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("comment", text),
        sa.Column("properties", text),
        sa.Column("owner", text),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "folded"),
    )
    op.create_table(
        "definitions",
        sa.Column("id", text, primary_key=True),
        sa.Column("tenant", text, nullable=False),
        sa.Column("namespace", text, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("folded_namespace", text, nullable=False),
        sa.Column("folded", text, nullable=False),
        sa.Column("type", text, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("updated_us", sa.BigInteger, nullable=False),
        sa.Column("owner", text),
        sa.Column("updated_by", text),
        sa.Column("location", text),
        sa.Column("managed", sa.Integer, nullable=False),
        sa.Column("table_id", text),
        sa.Column("bindings", text),
        sa.Column("stored_schema", text),
        sa.Column("stored_version", sa.BigInteger),
        sa.Column("due_us", sa.BigInteger),
        sa.Column("removes_files", sa.Integer, nullable=False),
        sa.Column("spec", text, nullable=False),
    )
    op.create_index(
        "active_definitions",
        "definitions",
        ["tenant", "folded_namespace", "folded"],
        unique=True,
        sqlite_where=sa.text("state = 'ACTIVE'"),
        postgresql_where=sa.text("state = 'ACTIVE'"),
    )
    op.create_table(
        "changes",
        sa.Column("tenant", text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("definition", text),
        sa.Column("name", text, nullable=False),
        sa.Column("kind", text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("by", text),
        sa.Column("request_id", text, nullable=False),
        sa.Column("spec", text),
        sa.PrimaryKeyConstraint("tenant", "version"),
    )
    op.create_index("change_requests", "changes", ["tenant", "request_id"])
    info = sa.table("info", sa.column("catalog_id"), sa.column("epoch"))
    op.execute(info.insert().values(catalog_id=uuid.uuid4().hex, epoch=uuid.uuid4().hex))


def downgrade() -> None:
    """Refuse: there is nothing before the first."""
    raise NotImplementedError("there is no schema before the first")
