"""What a stored result is of: a SELECT, the tables it reads, and the rules of its session.

Spark reads and runs the SELECT. The request is a `SelectJob`, as JSON; the reply a `Selected`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from projseg.errors import CODES, InvalidInputError, ProjsegError
from projseg.maintenance.spark_errors import error_in
from projseg.table_layer.metadata.snapshot import Snapshot
from projseg.table_layer.storage.paths import VIEWS
from projseg.views.definitions.definition import Definition
from projseg.views.definitions.view_checks import checked_text, needs_spark
from projseg.views.linked_tables import seen_from
from projseg.views.view_dimensions import stored_type_of
from projseg.views.view_records import ViewDimension, ViewEntry, digest_of

RunSelect = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Has Spark read or run a `SelectJob`, and returns its answer."""

_DEFINED: Final = msgspec.json.Encoder(order="sorted")


class ResultDefinition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The definition of a stored result, as its view keeps it.

    `session` has settings that may change what a SELECT means.
    """

    select: str
    session: dict[str, str]

    @classmethod
    def of(cls, view: ViewEntry) -> ResultDefinition:
        """Return the definition of a view of grade `result`."""
        return msgspec.json.decode(view.definition, type=cls)


class SelectJob(msgspec.Struct, frozen=True):
    """A SELECT for Spark, with the location, version and table_id of each table by its name in it.

    It is read under the settings `session`, None for the session's own; its rows become a table at
    `target`, or are only read. The description is for Spark's UI.
    """

    select: str
    tables: dict[str, dict[str, Any]]
    session: dict[str, str] | None
    target: str | None
    description: str

    def run(self, run: RunSelect | None) -> Selected:
        """Return Spark's reply."""
        if run is None:
            raise needs_spark(self.description)
        answer = run(msgspec.to_builtins(self))
        if "refused" in answer:
            code, message = answer["refused"]["code"], answer["refused"]["message"]
            raise InvalidInputError(code if code in CODES else "PROJSEG_BAD_VIEW", message)
        if "failed" in answer:
            raise error_in(answer["failed"]) or ProjsegError(
                "PROJSEG_JOB_FAILED", f"{self.description}: {answer['failed']}"
            )
        return msgspec.convert(answer["selected"], Selected)


class Selected(msgspec.Struct, frozen=True):
    """Spark's answer about a SELECT: the settings it was read under, and the columns of each table.

    `nomination` is the hash of its tables and operators; `is_ordered` says that its rows have an
    order.
    """

    nomination: str
    is_ordered: bool
    session: dict[str, str]
    columns: dict[str, tuple[str, ...]]


def place_of(table: Snapshot) -> dict[str, Any]:
    """Return the place of a table, for Spark."""
    return {
        "location": table.storage.location,
        "version": table.version,
        "table_id": table.properties.table_id,
    }


def define_result(
    sql: str, tables: Mapping[str, Snapshot], fact: Snapshot, run: RunSelect | None
) -> Definition:
    """Return what a SELECT means as a stored result."""
    checked_text(sql)
    places = {name: place_of(one) for name, one in tables.items()}
    selected = SelectJob(sql, places, None, None, "CREATE MATERIALIZED VIEW").run(run)
    base = f"{fact.storage.location}/{VIEWS}"
    read = tuple(
        ViewDimension(
            name,
            seen_from(one.storage.location, base),
            one.properties.table_id,
            tuple(
                stored_type_of(column, one.properties) for column in selected.columns.get(name, ())
            ),
        )
        for name, one in sorted(tables.items())
    )
    text = _DEFINED.encode(ResultDefinition(sql, selected.session)).decode()
    digest = digest_of([text, *(f"{one.alias} {one.table_id}" for one in read)])
    return Definition(sql, text, digest, None, read, grade="result")
