"""Types as people write them: `BIGINT`, `long`, `decimal(10, 2)`, `array<struct<a: int>>`."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.text.dialect import parse_sql
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.layout.logical_types import TIMESTAMP, TIMESTAMP_NTZ

_T: Final = exp.DataType.Type
_BY_KIND: Final = {
    _T.BOOLEAN: pa.bool_(),
    _T.TINYINT: pa.int8(),
    _T.SMALLINT: pa.int16(),
    _T.INT: pa.int32(),
    _T.BIGINT: pa.int64(),
    _T.FLOAT: pa.float32(),
    _T.DOUBLE: pa.float64(),
    _T.TEXT: pa.string(),
    _T.VARCHAR: pa.string(),
    _T.BINARY: pa.binary(),
    _T.VARBINARY: pa.binary(),
    _T.DATE: pa.date32(),
    _T.TIMESTAMPTZ: TIMESTAMP,
    _T.TIMESTAMPLTZ: TIMESTAMP,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP_NTZ,
}

_LIMIT: Final = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?:decimal|dec|numeric)\s*\("
    r"|(?P<limit>\w+\s*\([^()]*\)|\bcollate\s+\w+|\bnot\s+null\b|\bdefault\s+[\w'\".(+-]+)",
    re.IGNORECASE,
)
"""Names, texts and sizes of decimals; and what a type may be written with that is not stored."""


def written_type(tree: exp.DataType) -> pa.DataType:
    """Return the Arrow type of a type as sqlglot read it.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_EXPRESSION if projseg has no cast to the type.
    """
    if tree.this == _T.DECIMAL:
        sizes = [Decimal(parameter.name) for parameter in tree.expressions]
        precision, scale = (*sizes, Decimal(0))[:2] if sizes else (Decimal(10), Decimal(0))
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise bad_expression(f"decimal({precision},{scale}) is not a type of up to 38 digits")
        return pa.decimal128(int(precision), int(scale))
    if tree.this in (_T.ARRAY, _T.MAP, _T.STRUCT) and tree.expressions:
        return _nested_type(tree)
    found = _BY_KIND.get(tree.this)
    has_collation = tree.args.get("collate") is not None
    if found is None or has_collation or (found == pa.string() and tree.expressions):
        raise bad_expression(f"cannot cast to {tree.sql(dialect='spark')}")
    return found


def _nested_type(tree: exp.DataType) -> pa.DataType:
    """Return an array, map or struct type; only a null can be cast to one."""
    if tree.this == _T.STRUCT:
        fields = [(field.name, written_type(field.args["kind"])) for field in tree.expressions]
        return pa.struct(fields)
    parts = [written_type(part) for part in tree.expressions]
    return pa.list_(*parts) if tree.this == _T.ARRAY else pa.map_(*parts)


def parse_type(text: str) -> pa.DataType:
    """Return the type that a text names in Spark SQL.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_TYPE_NAME if the text is not a type, or not one that projseg stores.
    """
    limit = next((found for found in _LIMIT.finditer(text) if found["limit"]), None)
    if limit is not None:
        raise InvalidInputError(
            "PROJSEG_BAD_TYPE_NAME",
            f"'{text}' has {limit[0]}, and projseg stores neither limits of length nor collations, "
            "NOT NULL or defaults; write the type without it, such as string, or declare the "
            "column in a catalog of Spark, which checks the rows that it writes",
        )
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
