"""Types as people write them: `BIGINT`, `long`, `decimal(10, 2)`, `array<struct<a: int>>`."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.binding.binder_types import written_type
from projseg.algebra.expressions.text.dialect import parse_sql
from projseg.errors import InvalidInputError, ProjsegError


def parse_type(text: str) -> pa.DataType:
    """Return the type that a text names in Spark SQL.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_TYPE_NAME if the text is not a type, or not one that projseg stores.
    """
    try:
        # The line break keeps a comment in the text from swallowing the bracket.
        tree = parse_sql(f"CAST(NULL AS {text}\n)")
        if isinstance(tree, exp.Cast):
            return written_type(tree.to)
    except ProjsegError:
        pass
    raise InvalidInputError(
        "PROJSEG_BAD_TYPE_NAME",
        f"'{text}' is not a type that projseg stores; write it as in Spark SQL, such as bigint, "
        "string, timestamp, decimal(10,2) or array<int>",
    )
