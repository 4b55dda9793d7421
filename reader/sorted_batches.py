"""Rows in an order in bounded memory: sorted runs, which go to a temporary file, and their merge.

A run is sorted and cut into batches. Each row has the number of its arrival as its last key, so no
two rows are equal. Batches are merged in the order of their first rows: all rows that were read and
come before the first row of the next batch are next. Of each run at most one batch stays behind
those, so a merge takes the memory of a few runs, and that of the keys of the first rows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.expressions.bind import NamedExpression
from projseg.algebra.expressions.evaluate import evaluate_in_parts
from projseg.algebra.expressions.tree import Column
from projseg.algebra.query.bound_query import OrderTerm, ascending
from projseg.memory.deadline import check_deadline
from projseg.memory.temporary_batches import Place, TemporaryBatches, bytes_in_memory
from projseg.reader.open_sources import BATCH_BYTES
from projseg.reader.order_ranks import ranks_of, sorted_positions, taken_ranks
from projseg.segment_format.arrow_arrays import primitive_array

# A run has this share of the bytes that rows may take: it is joined, ranked and copied in order.
_RUN_SHARE: Final = 1 / 4
# Larger runs are far from the processor, and slower to sort than more of them are to merge; beyond
# so many runs they grow, since a merge keeps a batch of each.
_RUN_BYTES: Final = 1 << 24
_RUNS: Final = 128
# Sorted runs of this share of the bytes stay in memory.
_HELD_SHARE: Final = 1 / 4
# A run is cut into so many batches: a batch of each of as many runs takes the memory of a run.
# Later runs are cut finer, so that a batch of each of all of them takes less than that of two.
_BATCHES: Final = 128
_BATCH_BYTES_MIN: Final = 1 << 16
_ARRIVAL: Final = NamedExpression("\0arrival", Column(pa.int64(), "\0arrival"))
_ADVICE: Final = "Filter rows, ask for fewer columns, or give a LIMIT"


def sorted_rows(table: pa.Table, criteria: Sequence[OrderTerm], limit: int | None) -> pa.Table:
    """Return the first rows in order; of equal ones those that come first in the table."""
    if not len(table):
        return table
    joined = table.combine_chunks()
    return joined.take(primitive_array(_order(joined, criteria, limit)))


def sorted_batches(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, criteria: Sequence[OrderTerm]
) -> Generator[pa.RecordBatch]:
    """Yield the rows of some batches in order; of equal ones those first that came first.

    Raises LimitExceededError (PROJSEG_QUERY_TOO_LARGE) if rows take more than PROJSEG_GROUP_BYTES
    and the temporary folder has no room.
    """
    limit = bytes_in_memory()
    held: list[pa.RecordBatch] = []
    byte_count = 0
    with closing(_Runs(schema, criteria, limit)) as runs:
        for batch in batches:
            held.append(batch)
            byte_count += batch.nbytes
            if byte_count > runs.run_bytes:
                runs.add(held)
                byte_count = 0
        if runs.is_empty:
            rows = pa.Table.from_batches(held, schema)
            yield from _cut(sorted_rows(rows, criteria, None), BATCH_BYTES)
        else:
            runs.add(held)
            yield from runs.merged()


class _Runs:
    """Sorted runs of rows, in batches whose first rows' keys are in memory.

    A run and the batches that are held take a share of `limit` bytes each.
    """

    def __init__(self, schema: pa.Schema, criteria: Sequence[OrderTerm], limit: int) -> None:
        self._schema, self._held_max = schema, limit * _HELD_SHARE
        self._run_bytes_max = int(limit * _RUN_SHARE)
        self._criteria = (*criteria, *ascending([_ARRIVAL]))
        read = frozenset[str]().union(*(term.expression.columns for term in self._criteria))
        self._stored = schema.append(pa.field(_ARRIVAL.name, _ARRIVAL.expression.type))
        self._keys = [name for name in self._stored.names if name in read]
        self._row_count = self._byte_count = 0
        self._batches: list[pa.RecordBatch | Place | None] = []
        self._firsts: list[pa.Table] = []
        self._file = TemporaryBatches("sorted rows", _ADVICE)

    @property
    def run_bytes(self) -> int:
        """How many bytes the next run takes."""
        return min(max(_RUN_BYTES, self._byte_count // _RUNS), self._run_bytes_max)

    @property
    def is_empty(self) -> bool:
        """Whether there is no run."""
        return not self._firsts

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def add(self, batches: list[pa.RecordBatch]) -> None:
        """Take rows out of a list, which are a run."""
        rows = pa.Table.from_batches(batches, self._schema)
        batches.clear()
        if not len(rows):
            return
        numbers = np.arange(self._row_count, self._row_count + len(rows))
        self._row_count += len(rows)
        rows = rows.append_column(self._stored.field(-1), primitive_array(numbers))
        rows = sorted_rows(rows, self._criteria, None)
        starts = [0]
        for batch in _cut(rows, self._batch_bytes()):
            check_deadline()
            self._byte_count += batch.nbytes
            is_held = self._byte_count <= self._held_max
            self._batches.append(batch if is_held else self._file.write(batch))
            starts.append(starts[-1] + len(batch))
        self._firsts.append(rows.select(self._keys).take(pa.array(starts[:-1])))

    def _batch_bytes(self) -> int:
        share = min(1.0, _BATCHES / (len(self._firsts) + 1)) ** 2 / _BATCHES
        return max(int(self.run_bytes * share), _BATCH_BYTES_MIN)

    def merged(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in order, merging about the bytes of a run at a time."""
        firsts = pa.concat_tables(self._firsts).combine_chunks()
        waiting = list(map(int, _order(firsts, self._criteria, None)[::-1]))
        rest: list[pa.RecordBatch] = []
        while waiting:
            check_deadline()
            byte_count = 0
            while waiting and byte_count <= self.run_bytes:
                rest.append(self._batch(waiting.pop()))
                byte_count += rest[-1].nbytes
            rows = pa.Table.from_batches(rest, self._stored).combine_chunks()
            keys, end = rows.select(self._keys), len(rows)
            if waiting:
                keys = pa.concat_tables([keys, firsts.slice(waiting[-1], 1)]).combine_chunks()
            order = _order(keys, self._criteria, None)
            if waiting:
                end = int(np.flatnonzero(order == end)[0])
            rest = rows.take(primitive_array(order[end + 1 :])).to_batches()
            ready = rows.drop_columns(self._stored.names[-1]).take(primitive_array(order[:end]))
            del rows
            yield from _cut(ready, BATCH_BYTES)

    def _batch(self, number: int) -> pa.RecordBatch:
        found, self._batches[number] = self._batches[number], None
        assert found is not None, "a batch is read once"
        return self._file.read(found, self._stored) if isinstance(found, Place) else found


def _order(rows: pa.Table, criteria: Sequence[OrderTerm], limit: int | None) -> NDArray[np.intp]:
    """Return the first positions in order; of equal rows those that come first."""
    columns = {name: _array(rows.column(name)) for name in rows.column_names}
    values = (evaluate_in_parts(term.expression, columns, len(rows)) for term in criteria)
    if limit is None:
        each = chain.from_iterable(map(ranks_of, values, criteria))
        return sorted_positions(each, len(rows), None)
    ranked = (partial(taken_ranks, *one) for one in zip(values, criteria, strict=True))
    return sorted_positions(ranked, len(rows), limit)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _cut(rows: pa.Table, byte_count: int) -> Sequence[pa.RecordBatch]:
    """Cut rows into batches of about `byte_count` bytes, and of a row or more."""
    few = byte_count * len(rows) // max(rows.nbytes, 1)
    batches: list[pa.RecordBatch] = rows.to_batches(max_chunksize=max(few, 1))
    return batches
