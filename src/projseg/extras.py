"""Packages that only some uses need.

Messages name these packages, and not an extra of projseg: on an index where projseg is not, its
name is anybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NoReturn

from projseg.errors import MissingPackageError

SPARK_RELEASES: Final = (
    "4.0",
    "4.1",
    "4.2",
    "4.3",
)  # CI runs the last; `make test-spark-matrix` all
REQUIREMENTS: Final = {
    "alembic": "alembic>=1.16",
    "deltalake": "deltalake>=1.0",
    "duckdb": "duckdb>=1.4",
    "sqlalchemy": "sqlalchemy>=2.0.40",
    "starlette": "starlette>=0.46",
    "uvicorn": "uvicorn>=0.34",
    "urllib3": "urllib3>=2.2",
    "prompt_toolkit": "prompt_toolkit>=3.0.43",
    "psycopg": "psycopg[binary]>=3.2",
    "jinja2": "jinja2>=3.1.5",
    "obstore": "obstore>=0.12",
    "polars": "polars>=2",
    "pyiceberg": "pyiceberg>=0.11",
    "pyspark": "pyspark>=4.0,<4.4",
    "tpchgen-cli": "tpchgen-cli>=4",
}


def require(package: str, purpose: str) -> None:
    """Raise MissingPackageError if a package of `REQUIREMENTS` is not installed.

    The error has the command that installs it; its subject is the purpose, the use that needs the
    package.
    """
    if find_spec(package) is None:
        raise MissingPackageError(
            "PROJSEG_MISSING_PACKAGE",
            f"{purpose} needs the package {package}, which is not installed; run: "
            + installing(package),
        )


def require_catalog(purpose: str) -> None:
    """Raise MissingPackageError if a package that every catalog of definitions takes is missing."""
    for package in ("sqlalchemy", "alembic"):
        require(package, purpose)


def installing(package: str) -> str:
    """Return the command that installs a package in a release that projseg works with."""
    return f"pip install '{REQUIREMENTS[package]}'"


def require_spark(purpose: str) -> None:
    """Refuse what needs Spark where it is not installed, or in another release than the tests'.

    Spark's interface for sources written in Python changes between releases. Raises
    MissingPackageError, naming the releases.
    """
    require("pyspark", purpose)
    # Imported here: only what is about to use it may pay for it.
    import pyspark

    if not is_known_spark(pyspark.__version__):
        raise MissingPackageError(
            "PROJSEG_MISSING_PACKAGE",
            f"{purpose} needs Spark {SPARK_RELEASES[0]} to {SPARK_RELEASES[-1]}, and this is "
            f"{pyspark.__version__}; run: {installing('pyspark')}",
        )


def is_known_spark(version: str) -> bool:
    """Whether a full version, such as 4.3.0, is of one of `SPARK_RELEASES`."""
    return spark_release(version) in SPARK_RELEASES


def spark_release(version: str) -> str:
    """Return the release of a full version: 4.3 of 4.3.0."""
    return ".".join(version.split(".")[:2])


def shipped_jar(release: str) -> Path | None:
    """Return the jar of Spark's extension that this install brought for a release, or None."""
    jar = Path(__file__).parent / "spark_jars" / f"projseg-spark-{release}.jar"
    return jar if jar.is_file() else None


def refusal(name: str, missing: MissingPackageError) -> Callable[..., NoReturn]:
    """Return a placeholder for a function that cannot be imported; a call raises the reason.

    `help` and completion then work without the package.
    """

    def refuse(*_arguments: Any, **_named: Any) -> NoReturn:
        raise missing

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Not usable here: {missing.message}."
    return refuse
