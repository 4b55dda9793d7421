"""On PYTHONPATH, no process can import what a catalog takes, as if it were not installed."""

import sys

PACKAGES = ("sqlalchemy", "alembic", "urllib3", "psycopg", "starlette", "uvicorn")
sys.modules.update(dict.fromkeys(PACKAGES))
