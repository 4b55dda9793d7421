"""A version of a table as a dataset of pyarrow, which DuckDB, Polars and others read.

They ask any dataset for `scanner(columns=, filter=)` in the same words, so one class hands columns
and conditions to the engine for all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from msgspec.structs import replace

from projseg.algebra.expressions.tree import Expression
from projseg.algebra.query.binding import bind_query, rows_where
from projseg.algebra.query.bound_query import QuerySpec
from projseg.algebra.query.declared_columns import over_stored
from projseg.algebra.query.request import Query
from projseg.errors import InvalidInputError, did_you_mean
from projseg.memory.door import Door, door_of_question, through
from projseg.reader.row_scan import scan
from projseg.segment_format.format_limits import PAGE_ROWS_MAX
from projseg.table.arrow_filter import read_filter
from projseg.table.logged_answers import logged_batches

if TYPE_CHECKING:
    from projseg.table.version_reader import VersionReader

Columns = Sequence[str] | Mapping[str, pc.Expression] | None
_FIXED_ORDER: Final = ("bool", "int8", "int16", "int32", "date32[day]", "float", "int64", "double")


class TableScanner:
    """Columns and rows of a dataset, with the methods of Arrow's scanner that readers use."""

    def __init__(self, dataset: TableDataset, names: Sequence[str], query: QuerySpec) -> None:
        self._dataset, self._names, self._query = dataset, names, query
        # Whoever reads the rows may do so in threads of its own.
        self._door = door_of_question("dataset")

    @property
    def dataset_schema(self) -> pa.Schema:
        """All columns of the dataset."""
        return self._dataset.schema

    @property
    def projected_schema(self) -> pa.Schema:
        """The columns that are read."""
        return pa.schema([self._dataset.schema.field(name) for name in self._names])

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, a few batches ahead of the caller; dropped, it closes its files."""
        return _of_some_size(self._dataset.batches_of(self._query, self._names, self._door))

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.to_batches())

    def to_table(self) -> pa.Table:
        """Return all rows."""
        return pa.Table.from_batches(self.to_batches(), self.projected_schema)

    def head(self, num_rows: int) -> pa.Table:
        """Return the first rows as they are stored."""
        return pa.Table.from_batches(_first(self.to_batches(), num_rows), self.projected_schema)

    def count_rows(self) -> int:
        """Return how many rows there are, from metadata or projections where these say it."""
        with through(self._door):
            return self._dataset.count(self._query)


class TableDataset(ds.Dataset):  # type: ignore[misc]  # pyarrow has no annotations
    """A table at one version, to be given to DuckDB, Polars, ibis or pyarrow.

    Columns that nobody asks for are not decoded, and conditions are answered as a query's filter
    is: pages and segments without a match are not read. A condition has the meaning of SQL: NaN
    equals itself and is the greatest number, and a null is in no list, and outside of none.

    Parameters
    ----------
    version : VersionReader
        The table; a later commit changes nothing here.
    """

    def __init__(self, version: VersionReader) -> None:
        self._version = version.at(version.snapshot)

    @property
    def schema(self) -> pa.Schema:
        """The table's columns."""
        return self._version.schema

    @property
    def version(self) -> int:
        """The table's version."""
        return self._version.snapshot.version

    def scanner(
        self, columns: Columns = None, filter: pc.Expression | None = None, **_tuning: object
    ) -> TableScanner | ds.Scanner:
        """Return what reads some columns of the rows for which a condition is true.

        Parameters
        ----------
        columns : sequence of str, mapping of str to Expression, or None
            None means all, and an empty list rows without columns. Expressions are computed by
            Arrow.
        filter : Expression or None
            A condition. Arrow evaluates the parts that projseg cannot read as a condition, over
            their columns and with Arrow's own meaning.
        **_tuning
            Sizes and threads, which pyarrow's own datasets take and this one chooses by itself.

        Returns
        -------
        TableScanner or pyarrow.dataset.Scanner
            Both have `to_reader`, `to_batches`, `to_table`, `head` and `count_rows`.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_COLUMN for a name that is no column.
        """
        found = None if filter is None else read_filter(filter, self.schema)
        is_read = found is None or found.condition is not None
        if is_read and not isinstance(columns, Mapping):
            names = self.schema.names if columns is None else list(columns)
            condition = None if found is None else found.condition
            return TableScanner(self, self._checked(names), self._rows(names, condition))
        return self._computed(columns, filter, None if found is None else found.columns)

    def to_batches(self, *arguments: Any, **named: Any) -> Iterator[pa.RecordBatch]:
        """Yield batches of what `scanner` reads."""
        return self.scanner(*arguments, **named).to_batches()

    def to_table(self, *arguments: Any, **named: Any) -> pa.Table:
        """Return what `scanner` reads."""
        return self.scanner(*arguments, **named).to_table()

    def to_reader(self, *arguments: Any, **named: Any) -> pa.RecordBatchReader:
        """Return the rows of `scanner` as a stream."""
        return self.scanner(*arguments, **named).to_reader()

    def head(self, num_rows: int, *arguments: Any, **named: Any) -> pa.Table:
        """Return the first rows of what `scanner` reads."""
        return self.scanner(*arguments, **named).head(num_rows)

    def count_rows(self, filter: pc.Expression | None = None, **tuning: Any) -> int:
        """Return the number of rows for which a condition is true."""
        return self.scanner([], filter, **tuning).count_rows()

    def take(self, indices: Any, *arguments: Any, **named: Any) -> pa.Table:
        """Return rows of what `scanner` reads by their positions, in the order given."""
        wanted = np.asarray(indices, np.int64)
        places, back = np.unique(wanted, return_inverse=True)
        scanner = self.scanner(*arguments, **named)
        found, start = [], 0
        for batch in scanner.to_batches():
            first, end = np.searchsorted(places, (start, start + batch.num_rows))
            if first < end:
                found.append(batch.take(pa.array(places[first:end] - start)))
            start += batch.num_rows
        if len(places) and not 0 <= places[0] <= places[-1] < start:
            raise IndexError(f"positions {places[0]} to {places[-1]} of {start} rows")
        return pa.Table.from_batches(found, scanner.projected_schema).take(pa.array(back))

    def get_fragments(self, filter: pc.Expression | None = None) -> NoReturn:
        """Refuse: segments are read by projseg alone."""
        raise NotImplementedError("segments of a projseg table are no fragments of Arrow")

    def __reduce__(self) -> tuple[type[TableDataset], tuple[VersionReader]]:
        return TableDataset, (self._version,)

    def _checked(self, names: Sequence[str]) -> Sequence[str]:
        known = self.schema.names
        for name in names:
            if name not in known:
                raise InvalidInputError(
                    "PROJSEG_UNKNOWN_COLUMN",
                    f"the table has no column '{name}'{did_you_mean(name, known)}; its columns "
                    f"are {', '.join(known)}",
                )
        return names

    def _rows(self, names: Sequence[str], condition: Expression | None) -> QuerySpec:
        """Return a query of the rows for which a condition is true, bound to stored columns."""
        properties, declared = self._version.properties, self._version.declared
        time_column, asked = properties.time_column, Query()
        named_time = time_column if declared is None else declared.name_of(time_column)
        query = bind_query(self.schema, named_time, asked)
        by_name = {one.name: one for one in query.columns}
        wanted = dict.fromkeys(names or [_narrowest(self.schema)])
        query = replace(query, columns=tuple(by_name[name] for name in wanted))
        query = rows_where(query, condition, self.schema, None)
        if declared is None:
            return query
        return over_stored(query, declared, properties.schema, time_column, asked)

    def batches_of(
        self, query: QuerySpec, names: Sequence[str], door: Door
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query with these columns."""
        with through(door):
            plan = self._version.plan_bound(query)
        batches = scan(self._version.storage, plan, plan.segments)
        for batch in logged_batches(self._version.snapshot, plan, batches, door):
            if batch.schema.names == list(names):
                yield batch
            elif names:
                yield batch.select(list(names))
            else:
                yield _without_columns(batch.num_rows)

    def count(self, query: QuerySpec) -> int:
        """Return how many rows a query has."""
        counted = bind_query(self._version.properties.schema, None, Query(aggregators="count(*)"))
        counted = replace(counted, time_column=query.time_column, time_type=query.time_type)
        plan = self._version.plan_bound(counted.among(query.filter, query.interval))
        return int(self._version.answer(plan).column(0)[0].as_py())

    def _computed(
        self, columns: Columns, filter: pc.Expression | None, filtered: frozenset[str] | None
    ) -> ds.Scanner:
        """Let Arrow compute columns, or a filter, over the columns that these name."""
        names = self._names_for(columns, filter, filtered)
        rows = TableScanner(self, names, self._rows(names, None))
        wanted = columns if columns is None or isinstance(columns, Mapping) else list(columns)
        return ds.Scanner.from_batches(
            rows.to_reader(),
            columns=self.schema.names if wanted is None else wanted,
            filter=filter,
        )

    def _names_for(
        self, columns: Columns, filter: pc.Expression | None, filtered: frozenset[str] | None
    ) -> list[str]:
        if columns is None or (filter is not None and filtered is None):
            return list(self.schema.names)
        asked = set(filtered or ())
        for one in columns.values() if isinstance(columns, Mapping) else ():
            named = read_filter(one, self.schema).columns
            if named is None:
                return list(self.schema.names)
            asked |= named
        if not isinstance(columns, Mapping):
            asked |= set(self._checked(list(columns)))
        return [name for name in self.schema.names if name in asked]


def _narrowest(schema: pa.Schema) -> str:
    """Return the column whose values are the quickest to read, to count rows by."""

    def rank(field: pa.Field) -> int:
        kind = str(field.type)
        return _FIXED_ORDER.index(kind) if kind in _FIXED_ORDER else len(_FIXED_ORDER)

    return str(min(schema, key=rank).name)


def _without_columns(row_count: int) -> pa.RecordBatch:
    """Return rows without columns; only a struct has a number of rows without any."""
    empty = pa.StructArray.from_arrays([], fields=[])
    if row_count:
        empty = pa.array([{}], pa.struct([])).take(pa.array(np.zeros(row_count, np.int64)))
    return pa.RecordBatch.from_struct_array(empty)


def _of_some_size(batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
    """Join neighbouring small batches: readers take longer for a batch than for its few rows."""
    small: list[pa.RecordBatch] = []
    for batch in batches:
        if not batch.num_rows:
            continue
        if small and sum(one.num_rows for one in small) + batch.num_rows > PAGE_ROWS_MAX:
            yield _joined(small)
            small = []
        if batch.num_rows >= PAGE_ROWS_MAX // 2:
            if small:
                yield _joined(small)
                small = []
            yield batch
        else:
            small.append(batch)
    if small:
        yield _joined(small)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _first(batches: Iterable[pa.RecordBatch], row_count: int) -> Iterator[pa.RecordBatch]:
    left = row_count
    for batch in batches:
        if left <= 0:
            return
        yield batch.slice(0, left)
        left -= batch.num_rows
