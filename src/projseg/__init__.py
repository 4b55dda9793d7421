"""projseg: a columnar segment format with embedded projections, for Spark and for plain Python.

Names are imported when they are first used, so that Spark's look-up of data sources, which imports
this package in every session, costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from projseg.advisor.advice import Advice
    from projseg.advisor.advice_report import advice_report
    from projseg.advisor.advise import advise
    from projseg.algebra.expressions.argument_texts import literal
    from projseg.algebra.query.join import Join
    from projseg.algebra.query.request import Query
    from projseg.catalog.catalog import Catalog
    from projseg.declarations import Index, Projection
    from projseg.doors.duckdb_tables import duckdb
    from projseg.errors import ProjsegError
    from projseg.explain import Explain
    from projseg.memory.cache import cache_statistics
    from projseg.memory.metrics import metrics
    from projseg.page.serving import serve_page
    from projseg.query_pool.pool import QueryPool
    from projseg.reader.query_log.read_log import read_log
    from projseg.spark_datasource.extension import configure, query_log
    from projseg.spark_datasource.read_write import read, register, write
    from projseg.table import Table, is_table
    from projseg.table.sql import sql
    from projseg.table.view_object import View
    from projseg.table.writes import Commit
    from projseg.views.refresh_work import Refresh

__version__ = "0.2.0"

__all__ = [
    "Advice",
    "Catalog",
    "Commit",
    "Explain",
    "Index",
    "Join",
    "Projection",
    "ProjsegError",
    "Query",
    "QueryPool",
    "Refresh",
    "Table",
    "View",
    "advice_report",
    "advise",
    "cache_statistics",
    "configure",
    "duckdb",
    "is_table",
    "literal",
    "metrics",
    "query_log",
    "read",
    "read_log",
    "register",
    "serve_page",
    "sql",
    "write",
]

_HOMES: Final = {
    "Advice": "projseg.advisor.advice",
    "advice_report": "projseg.advisor.advice_report",
    "advise": "projseg.advisor.advise",
    "Catalog": "projseg.catalog.catalog",
    "Commit": "projseg.table.writes",
    "Explain": "projseg.explain",
    "Index": "projseg.declarations",
    "Join": "projseg.algebra.query.join",
    "Projection": "projseg.declarations",
    "ProjsegError": "projseg.errors",
    "Query": "projseg.algebra.query.request",
    "QueryPool": "projseg.query_pool.pool",
    "Refresh": "projseg.views.refresh_work",
    "Table": "projseg.table",
    "View": "projseg.table.view_object",
    "cache_statistics": "projseg.memory.cache",
    "configure": "projseg.spark_datasource.extension",
    "duckdb": "projseg.doors.duckdb_tables",
    "is_table": "projseg.table",
    "literal": "projseg.algebra.expressions.argument_texts",
    "metrics": "projseg.memory.metrics",
    "query_log": "projseg.spark_datasource.extension",
    "read": "projseg.spark_datasource.read_write",
    "read_log": "projseg.reader.query_log.read_log",
    "register": "projseg.spark_datasource.read_write",
    "serve_page": "projseg.page.serving",
    "sql": "projseg.table.sql",
    "write": "projseg.spark_datasource.read_write",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'projseg' has no attribute '{name}'")
    # Imported here: most users of a package look up nothing that is missing.
    from projseg.errors import MissingPackageError
    from projseg.extras import refusal, require, require_catalog, require_spark

    try:
        if _HOMES[name].startswith("projseg.spark_datasource"):
            require_spark(f"projseg.{name}")
        elif name == "Catalog":
            require_catalog("projseg.Catalog")
        elif name == "serve_page":
            for package in ("starlette", "jinja2", "uvicorn"):
                require(package, "the page")
        return getattr(import_module(_HOMES[name]), name)
    except MissingPackageError as missing:
        return refusal(name, missing)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
