"""A read whose tasks write segments, and whose rows say which: how the extension runs such work.

Spark's own data source API carries it, so executors need nothing that reads do not need. The engine
on the driver makes the work and commits what the rows say, in `spark_engine`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from projseg.maintenance.task_messages import ShippedWork
from projseg.spark_datasource.option_record import WORK_OPTION
from projseg.spark_datasource.options import Options
from projseg.spark_datasource.reads.rewrite_runner import run_in_task
from projseg.spark_datasource.table_location import read_location
from projseg.table_layer.storage.locate_storage import open_storage


@dataclass
class _Piece(InputPartition):
    """The segments of one task, packed."""

    number: int
    piece: bytes


class WorkReader(DataSourceReader):
    """Work on segments, a partition for each piece of it.

    Parameters
    ----------
    given : mapping of str to str
        Spark's options: the table's location, options of its store, and the work.

    Raises
    ------
    InvalidInputError
        As of `ShippedWork.from_json`.
    """

    schema = StructType([StructField("message", StringType(), nullable=False)])

    def __init__(self, given: Mapping[str, str]) -> None:
        options = Options(given)
        storage = open_storage(read_location(options), options.storage_options)
        self._work, self._pieces = ShippedWork.from_json(storage, given[WORK_OPTION])

    def partitions(self) -> list[InputPartition]:
        """Return the pieces, once: Spark sends what this object keeps to each of its tasks."""
        pieces, self._pieces = self._pieces, ()
        return [_Piece(number, piece) for number, piece in enumerate(pieces)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Write the segment of a piece, and say which."""
        assert isinstance(partition, _Piece)
        yield (run_in_task(self._work, partition.number, partition.piece),)
