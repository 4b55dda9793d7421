"""A question on its way to a worker: what is asked of which version of which table, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from projseg.algebra.expressions.argument_texts import arguments_from_json, arguments_to_json
from projseg.algebra.expressions.arguments import Arguments
from projseg.algebra.query.context import context_options, parse_context
from projseg.algebra.query.request import Query, query_of
from projseg.errors import InvalidInputError
from projseg.table_layer.snapshot import Snapshot
from projseg.table_version import TableVersion


class VersionName(NamedTuple):
    """A version of a pool's table.

    Parameters
    ----------
    table : str
        The table's name in the pool.
    version : int
        Its number.
    write_id : str
        The commit that made it, which no other table has.
    """

    table: str
    version: int
    write_id: str

    @classmethod
    def of(cls, table: str, snapshot: Snapshot) -> VersionName:
        """Return the name of a version."""
        return cls(table, snapshot.version, snapshot.file.write_id)


class Asked(NamedTuple):
    """A question as it travels.

    Parameters
    ----------
    version : VersionName
        What it is asked of.
    method : str
        Of `TableVersion`: `query` or `sql`.
    first : str, list or None
        The first argument of the method; None if it is `query`.
    query : str or None
        The first argument, as the JSON of a `Query`.
    others : mapping
        The other arguments by name, without those that were left out.
    """

    version: VersionName
    method: str
    first: Any
    query: str | None
    others: Mapping[str, Any]

    def __str__(self) -> str:
        first = self.first if self.query is None else self.query
        # Values of users stay out of messages.
        others = ", ".join(
            f"{name}={value if name != 'args' else ...!r}"
            for name, value in self.others.items()
            if value
        )
        return f"{self.method}({', '.join(filter(None, [repr(first), others]))})"

    @classmethod
    def make(
        cls, version: VersionName, method: str, first: Any, others: Mapping[str, Any]
    ) -> bytes:
        """Return the bytes of a question.

        Raises
        ------
        TypeError
            If JSON cannot hold it.
        ProjsegError
            What `Table` raises for arguments that have another form than JSON's.
        """
        given = {name: value for name, value in others.items() if not _is_left_out(value)}
        arguments = Arguments.of(given.get("args"))
        if arguments is not None:
            given["args"] = arguments_to_json(arguments)
        if isinstance(first, Query):
            asked = cls(version, method, None, first.to_json(), given)
        else:
            asked = cls(version, method, first, None, given)
        try:
            return json.dumps(asked).encode()
        except TypeError:
            return json.dumps(asked._plain()).encode()

    @classmethod
    def read(cls, content: bytes) -> Asked:
        """Return the question of the bytes that `make` returned."""
        version, *parts = json.loads(content)
        return cls(VersionName(*version), *parts)

    def answer_of(self, version: TableVersion, threads: int) -> pa.Table:
        """Return the answer of a version, by so many threads unless the question says otherwise.

        Raises
        ------
        ProjsegError
            As of `Table.query` and `Table.sql`.
        """
        first, others = self.first, dict(self.others)
        if "args" in others:
            others["args"] = arguments_from_json(others["args"])
        if self.query is not None:
            first = Query.from_json(self.query)
            first = replace(first, context=_with_threads(first.context, threads))
        else:
            others["context"] = _with_threads(others.get("context"), threads)
        rows: pa.Table = getattr(version, self.method)(first, **others)
        return rows

    def _plain(self) -> Asked:
        """Return the same with what has another form put into JSON's, or raise what is wrong."""
        others = dict(self.others)
        if self.method == "sql" or self.query is not None:
            if "context" in others:
                others["context"] = context_options(parse_context(others["context"]))
            return self._replace(others=others)
        if "args" in others:
            others["args"] = arguments_from_json(others["args"])
        query = query_of(self.first, **others)
        return self._replace(first=None, query=query.to_json(), others={})


def refusal(
    table: TableVersion, method: str, first: Any, others: Mapping[str, Any]
) -> InvalidInputError:
    """Return the error for a question that JSON cannot hold.

    Raises
    ------
    Exception
        What the table itself says of the question, if it refuses it.
    """
    if method == "sql":
        table.sql(first, **others, explain=True)
    else:
        table.explain(first, **others)
    return InvalidInputError(
        "PROJSEG_BAD_QUERY", f"the question cannot be sent to a worker: {first!r}, {others!r}"
    )


def _is_left_out(value: Any) -> bool:
    return value is None or (type(value) is tuple and not value)


def _with_threads(context: Any, threads: int) -> Any:
    if context is None:
        return {"threads": threads}
    return {"threads": threads, **context} if isinstance(context, dict) else context
