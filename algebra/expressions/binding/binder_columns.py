"""Look up columns and fields of structs by name, without regard to case, as Spark does."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.tree import Call, Column, Expression
from projseg.errors import InvalidInputError, did_you_mean
from projseg.segment_format.layout.logical_types import type_name


class ColumnScope:
    """The columns that names in an expression may refer to.

    Parameters
    ----------
    schema : pa.Schema
        Names and types.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._by_fold: dict[str, list[str]] = {}
        for name in schema.names:
            self._by_fold.setdefault(name.casefold(), []).append(name)

    def has(self, name: str) -> bool:
        """Whether a column has the name, in any case of letters."""
        return name.casefold() in self._by_fold

    def resolve(self, tree: exp.Column) -> Expression:
        """Return the column, or the field of a struct column, that a dotted name refers to.

        Raises
        ------
        InvalidInputError
            If there is no such column or field, or more than one.
        """
        parts = [part.name for part in tree.parts]
        whole = ".".join(parts)
        if len(parts) > 1 and parts[0].casefold() not in self._by_fold and self._find(whole):
            return self._column(self._find(whole)[0])
        found = self._find(parts[0])
        if not found:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"column '{parts[0]}' is not known{did_you_mean(parts[0], self.schema.names)}"
                f"{'' if did_you_mean(parts[0], self.schema.names) else self._listed()}",
            )
        if len(found) > 1:
            raise bad_expression(f"column '{parts[0]}' may be any of {', '.join(found)}")
        expression: Expression = self._column(found[0])
        for part in parts[1:]:
            expression = self.field(expression, part)
        return expression

    def field(self, expression: Expression, name: str) -> Expression:
        """Return a field of a struct value.

        Raises
        ------
        InvalidInputError
            If the value is not a struct or has no such field.
        """
        arrow_type = expression.type
        if not pa.types.is_struct(arrow_type):
            raise bad_expression(f"'.{name}': a {type_name(arrow_type)} has no fields")
        names = [field.name for field in arrow_type]
        found = [n for n in names if n == name] or [
            n for n in names if n.casefold() == name.casefold()
        ]
        if len(found) != 1:
            raise InvalidInputError(
                "PROJSEG_UNKNOWN_COLUMN",
                f"{type_name(arrow_type)} has {len(found)} fields '{name}'"
                f"{did_you_mean(name, names)}",
            )
        return Call(arrow_type.field(found[0]).type, "field", (expression,), (found[0],))

    def _find(self, name: str) -> list[str]:
        found = self._by_fold.get(name.casefold(), [])
        return [name] if name in found else found

    def _column(self, name: str) -> Column:
        return Column(self.schema.field(name).type, name)

    def _listed(self) -> str:
        names = self.schema.names
        return f"; columns are {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"
