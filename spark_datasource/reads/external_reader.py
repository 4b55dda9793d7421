"""A read of files from outside, as a definition of a catalog or a statement says; a task for each.

The reader of files stands above the sources, in the room of catalogs, and is found by its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib import import_module

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from projseg.spark_datasource.option_record import EXTERNAL_FILES
from projseg.spark_datasource.plain_errors import in_one_line
from projseg.spark_datasource.reads.column_pruning import shape_batch
from projseg.spark_datasource.schemas import transfer_schema

_READER = "projseg.catalog.external.source_reader"


class ExternalReader(DataSourceReader):
    """One read of the files that the engine has named.

    Parameters
    ----------
    options : mapping of str to str
        With `EXTERNAL_FILES`: JSON of `parts` (a whole spec for each file), `roots` and `hosts`
        that the reader allows, and `timezone`.
    schema : StructType
        The columns that Spark wants.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._given = json.loads(options[EXTERNAL_FILES])
        self._schema = transfer_schema(schema)

    @in_one_line
    def partitions(self) -> list[InputPartition]:
        """Return a partition for each file."""
        return [InputPartition(number) for number in range(len(self._given["parts"]))]

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file in batches of exactly the schema that Spark asked for."""
        given = self._given
        rows = import_module(_READER).read_part(
            given["parts"][partition.value], given["roots"], given["hosts"], given["timezone"]
        )
        for batch in rows:
            yield shape_batch(batch, self._schema)
