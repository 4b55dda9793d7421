"""The data source that Spark finds as `format("projseg")`.

Spark imports this module in every application that looks a Python format up, so the engine is
imported only once a table is really touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from projseg.spark_datasource.option_table import (
    EXTERNAL_FILES,
    ROW_CHANGE,
    ROW_NUMBERS,
    WORK_OPTION,
)
from projseg.spark_datasource.python_workers import in_one_line

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from projseg.spark_datasource.read_request import ReadRequest


class ProjsegDataSource(DataSource):
    """A table of segments with embedded projections."""

    _pinned: ReadRequest | None = None

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "projseg"

    @in_one_line
    def schema(self) -> StructType:
        """Return the columns of the answer, and pin the table version that it will come from.

        Spark pickles this object afterwards, so the reader reads the version whose columns are
        returned here, whatever is committed in between.
        """
        # Imported here and below: the engine is heavy and Spark's look-up needs only the name.
        if WORK_OPTION in self.options:
            from projseg.spark_datasource.rewrite_runner import WorkReader

            return WorkReader.schema
        from projseg.spark_datasource.python_workers import freeze_imports
        from projseg.spark_datasource.read_request import (
            has_stream_options,
            parse_read_request,
            parse_stream_request,
        )
        from projseg.spark_datasource.scan import Scan

        # Spark does not tell here whether a stream is meant.
        if has_stream_options(self.options):
            scan = Scan(parse_stream_request(self.options).rows)
        else:
            scan = Scan(parse_read_request(self.options))
            self._pinned = scan.request
        if ROW_NUMBERS in self.options:
            from projseg.spark_datasource.row_level_changes import NumberedReader

            return NumberedReader.schema(scan)
        found = scan.spark_schema()
        freeze_imports()
        return found

    @in_one_line
    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader that yields exactly `schema`, which may be the user's own."""
        if WORK_OPTION in self.options:
            from projseg.spark_datasource.rewrite_runner import WorkReader

            return WorkReader(self.options)
        if EXTERNAL_FILES in self.options:
            from projseg.spark_datasource.batch_reader import ExternalReader

            return ExternalReader(self.options, schema)
        from projseg.spark_datasource.batch_reader import ProjsegReader
        from projseg.spark_datasource.read_request import parse_read_request

        request = self._pinned or parse_read_request(self.options)
        if ROW_NUMBERS in self.options:
            from projseg.spark_datasource.row_level_changes import NumberedReader

            return NumberedReader(request.of_base_rows(), schema)
        return ProjsegReader(request, schema)

    @in_one_line
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader of a table's rows as they are committed."""
        from projseg.errors import ProjsegError
        from projseg.spark_datasource.read_request import parse_stream_request
        from projseg.spark_datasource.streaming import ProjsegStreamReader, RefusedStream

        try:
            return ProjsegStreamReader(parse_stream_request(self.options), schema)
        except ProjsegError as error:
            return RefusedStream(error)

    @in_one_line
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows of `schema`; `overwrite` replaces the whole table."""
        from projseg.spark_datasource.write_job import ProjsegWriter
        from projseg.spark_datasource.write_request import parse_write_request

        request = parse_write_request(self.options)
        if ROW_CHANGE in self.options:
            from projseg.spark_datasource.row_level_changes import ChangeWriter

            return ChangeWriter(request, self.options[ROW_CHANGE], schema)
        return ProjsegWriter(request, schema, overwrite=overwrite)

    @in_one_line
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a writer of a stream's batches; `overwrite` is output mode `complete`."""
        from projseg.spark_datasource.streaming import ProjsegStreamWriter
        from projseg.spark_datasource.write_request import parse_stream_write_request

        request = parse_stream_write_request(self.options)
        return ProjsegStreamWriter(request, schema, overwrite=overwrite)
