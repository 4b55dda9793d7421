"""`ExternalVerbs`: rows of files, web servers and inline data, by definition or without one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from projseg.catalog.external.allowed_places import AllowedPlaces
from projseg.catalog.external.source_parameters import given_spec, whole_spec
from projseg.catalog.external.source_reader import read_source
from projseg.catalog.store.table_metadata import NameLike, parse_name
from projseg.catalog.table_verbs import TableVerbs


class ExternalVerbs(TableVerbs):
    """A catalog's definitions of files from outside, read with the rights of this process."""

    _places: AllowedPlaces

    def read(
        self, name: NameLike, *, timezone: str = "UTC", **parameters: Any
    ) -> pa.RecordBatchReader:
        """Return the rows of any definition; those of files from outside in bounded memory.

        Parameters
        ----------
        name : str or pair of str
            The definition.
        timezone : str
            Of times in files that are written without a zone.
        **parameters : object
            What a template leaves open, by the names of its properties: `files=["a.csv"]`,
            `filePattern="*.csv"`, `uris=[...]`. Of a connection also `format`, what belongs to it,
            and `schema`, columns as DDL text.

        Returns
        -------
        pa.RecordBatchReader
            The declared columns in their types. An error in a file comes while it is read.

        Raises
        ------
        InvalidInputError
            PROJSEG_UNKNOWN_PARAMETER, PROJSEG_MISSING_PARAMETER, PROJSEG_OUTSIDE_ROOTS,
            PROJSEG_HOST_NOT_ALLOWED, PROJSEG_BAD_INPUT_FILE, PROJSEG_UNKNOWN_TABLE.
        EvaluationError
            A value is not one of its type; the message names file, row and column.
        UnsupportedFeatureError
            PROJSEG_UNSUPPORTED_FEATURE for definitions of type `spark`.
        CatalogError
            As of `create`.
        """
        definition = self._definition(parse_name(name))
        if definition.type == "table" and not parameters:
            return self.table(name).query().to_reader()
        full_name = str(definition.full_name)
        return read_source(
            whole_spec(full_name, definition.spec, parameters), self._places, timezone
        )

    def external(self, *, timezone: str = "UTC", **parameters: Any) -> pa.RecordBatchReader:
        """Return rows of files from outside, without a definition.

        Parameters
        ----------
        timezone : str
            As of `read`.
        **parameters : object
            `source` (`inline`, `files`, `http`), its properties, and `schema`.

        Returns
        -------
        pa.RecordBatchReader
            As of `read`.

        Raises
        ------
        ProjsegError
            As of `read`.
        """
        return read_source(given_spec(parameters), self._places, timezone)
