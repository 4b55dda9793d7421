"""How alembic runs a step: on the connection that it is given, in the transaction that is open."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], render_as_batch=True)
context.run_migrations()
