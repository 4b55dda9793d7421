"""Turn sqlglot's tree into a typed tree, with Spark's implicit casts put in."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
from sqlglot import exp

from projseg.algebra.expressions import binder_names
from projseg.algebra.expressions.binder_names import ColumnScope, span_of
from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.coercion import bad_expression, cast_to, is_datetime, is_floating
from projseg.algebra.expressions.dialect import UnsignedRightShift
from projseg.algebra.expressions.expression_limits import misplaced
from projseg.algebra.expressions.functions.arithmetic import arithmetic, negative
from projseg.algebra.expressions.functions.arrays import item_at
from projseg.algebra.expressions.functions.comparison import comparison, membership
from projseg.algebra.expressions.functions.conditional import case_when, logical
from projseg.algebra.expressions.functions.function_table import SPELLINGS
from projseg.algebra.expressions.functions.numeric import bitwise, bitwise_not
from projseg.algebra.expressions.functions.time.calendar import add_interval, date_arithmetic
from projseg.algebra.expressions.functions.time.time_fields import extract
from projseg.algebra.expressions.functions.time.time_floor import WINDOW_START
from projseg.algebra.expressions.functions.trying import try_cast
from projseg.algebra.expressions.sql_parameters import argument_of, bad_arguments
from projseg.algebra.expressions.sql_words import DIFFERENCES, written_type
from projseg.algebra.expressions.stated_joins import is_stated_join, stated_join
from projseg.algebra.expressions.tree import (
    FALSE,
    TRUE,
    Call,
    Expression,
    Literal,
    decimal_literal,
    integer_literal,
    literal,
)
from projseg.algebra.time.duration import Span
from projseg.algebra.time.time_zones import zone_name
from projseg.errors import UnsupportedFeatureError, did_you_mean
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ, type_name

_Names: TypeAlias = dict[type[exp.Expression], str]

_COMPARISONS: Final[_Names] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
}
_ARITHMETIC: Final[_Names] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
_BITWISE: Final[_Names] = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}
_CALLS: Final[dict[type[exp.Expression], tuple[str, tuple[str, ...]]]] = {
    exp.If: ("if", ("this", "true", "false")),
    exp.Floor: ("floor", ("this", "decimals")),
    exp.Ceil: ("ceil", ("this", "decimals")),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.StrPosition: ("position", ("substr", "this", "position")),
    exp.RegexpLike: ("rlike", ("this", "expression")),
    exp.BitwiseLeftShift: ("shiftleft", ("this", "expression")),
    exp.BitwiseRightShift: ("shiftright", ("this", "expression")),
    UnsignedRightShift: ("shiftrightunsigned", ("this", "expression")),
}
"""From nodes that sqlglot has for special syntax to (function, the node's parts in order)."""

_NEAR_FUNCTION: Final = 0.8
"""How alike a name must be to be proposed: at less, `rand` would be taken for `rpad`."""
_LISTED: Final = "; docs/functions.md lists those that are"
_TRIMS: Final = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


class Binder:
    """Turns sqlglot's trees into typed trees, over one schema and in one time zone."""

    def __init__(self, schema: pa.Schema, zone: str) -> None:
        self.columns = ColumnScope.of(schema)
        self.zone = zone

    def bind(self, tree: exp.Expression) -> Expression:
        """Return the typed tree, not yet canonical.

        Raises InvalidInputError if the tree has no meaning over the schema, and
        PROJSEG_UNSUPPORTED_FUNCTION for syntax and functions that projseg does not have.
        """
        kind = type(tree)
        if kind in _COMPARISONS:
            left, right = self.operands(tree)
            return comparison(_COMPARISONS[kind], left, right, self.zone)
        if kind in _ARITHMETIC:
            return self._arithmetic(tree, _ARITHMETIC[kind])
        if kind in _BITWISE:
            return bitwise(_BITWISE[kind], *self.operands(tree), self.zone)
        if kind in _CALLS:
            function, parts = _CALLS[kind]
            return self.call(
                function, [tree.args[p] for p in parts if tree.args.get(p) is not None]
            )
        special = _SPECIAL.get(kind)
        if special is None:
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_FUNCTION",
                f"'{tree.sql(dialect='spark')}' is not supported in expressions",
            )
        return special(self, tree)

    def operands(self, tree: exp.Expression) -> tuple[Expression, Expression]:
        """Return the bound operands of a binary node."""
        return self.bind(tree.this), self.bind(tree.expression)

    def call(self, name: str, arguments: list[exp.Expression]) -> Expression:
        """Return the node of a function called by name.

        Raises PROJSEG_BAD_EXPRESSION for a wrong number or wrong types of arguments, and
        PROJSEG_UNSUPPORTED_FUNCTION if no function has the name.
        """
        spelling = SPELLINGS.get(name)
        if spelling is None:
            near = did_you_mean(name, SPELLINGS, _NEAR_FUNCTION)
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_FUNCTION",
                f"function '{name}' is not supported in expressions"
                f"{binder_names.function_instead(name) or near or _LISTED}",
            )
        if not spelling.fewest <= len(arguments) <= spelling.most:
            fewest, most = spelling.fewest, spelling.most
            wanted = f"{fewest} to {most}" if fewest < most else most
            near = "; write locate(part, text, from)" if name == "instr" else ""
            raise bad_expression(f"{name} takes {wanted} arguments, not {len(arguments)}{near}")
        bound = [self._argument(name, argument) for argument in arguments]
        return spelling.build(tuple(e if e.columns else canonical(e) for e in bound), self.zone)

    def _argument(self, function: str, tree: exp.Expression) -> Expression:
        span = span_of(tree) if function == "time_bucket" else None
        return self.bind(tree) if span is None else Literal(pa.string(), span.text)

    def _arithmetic(self, tree: exp.Expression, function: str) -> Expression:
        if function in ("+", "-"):
            left_span, right_span = span_of(tree.this), span_of(tree.expression)
            if right_span is not None:
                span = right_span if function == "+" else right_span.negated()
                return add_interval(self.bind(tree.this), span, self.zone)
            if left_span is not None and function == "+":
                return add_interval(self.bind(tree.expression), left_span, self.zone)
        left, right = self.operands(tree)
        if function == "-" and is_datetime(right.type):
            raise bad_expression(
                f"{type_name(left.type)} - {type_name(right.type)} is an INTERVAL in Spark, which "
                "is no value here; write datediff(a, b) for days, or timestampdiff(SECOND, b, a)"
            )
        if function in ("+", "-") and pa.date32() in (left.type, right.type):
            return date_arithmetic(function, left, right, self.zone)
        return arithmetic(function, left, right, self.zone)


def _parameter(binder: Binder, tree: exp.Placeholder) -> Expression:
    """Bind a parameter: its value as a constant, several values as an array."""
    name = str(tree.this)
    value = argument_of(name)
    if isinstance(value, Literal):
        return value
    if isinstance(value, Span):
        raise bad_arguments(
            f"parameter :{name} is a length of time, which is added to a time or taken from one"
        )
    if not value:
        raise bad_arguments(
            f"parameter :{name} is an empty list, which makes no array; it stands in IN (:{name})"
        )
    return SPELLINGS["array"].build(value, binder.zone)


def _column(binder: Binder, tree: exp.Column) -> Expression:
    name = tree.name.casefold()
    is_name = len(tree.parts) == 1 and not tree.this.args.get("quoted")
    if is_name and name in binder_names.BARE_INSTANT_NAMES and not binder.columns.has(name):
        return canonical(binder_names.instant_value(name, binder.zone))
    return binder.columns.resolve(tree)


def _number(binder: Binder, tree: exp.Literal) -> Expression:
    text = tree.this
    if tree.is_string:
        return Literal(pa.string(), text)
    if not text.isascii():  # older releases of sqlglot take ² for a digit
        raise bad_expression(f"'{text}' is no number")
    if "e" in text.lower():
        return literal(float(text), pa.float64())
    number = Decimal(text)
    found = decimal_literal(number)  # refuses a number that no type holds
    return found if "." in text else integer_literal(int(number))


def _bytes_of(digits: str) -> bytes:
    """Return the bytes of hexadecimal digits; Spark puts a zero before an odd number of them."""
    return bytes.fromhex("0" * (len(digits) % 2) + digits)


def _negation(binder: Binder, tree: exp.Neg) -> Expression:
    """Fold the sign into a number: the smallest bigint has no positive value to negate."""
    inner = tree.this
    typed: exp.Expression = (
        inner.this if isinstance(inner, exp.TryCast) and not inner.args.get("safe") else inner
    )
    if isinstance(typed, exp.Literal) and not typed.is_string:
        number = exp.Literal(this=f"-{typed.this}", is_string=False)
        if typed is inner:
            return _number(binder, number)
        if is_floating(written_type(inner.to)) and "e" not in typed.this.lower():
            number = exp.Literal(this=f"-{typed.this}e0", is_string=False)
        return canonical(cast_to(_number(binder, number), written_type(inner.to), binder.zone))
    return negative(binder.bind(inner), binder.zone)


def _cast(binder: Binder, tree: exp.Cast) -> Expression:
    convert = try_cast if tree.args.get("safe") else cast_to
    wanted = written_type(tree.to)
    if tree.this.is_string and is_datetime(wanted):
        binder_names.check_time_text(tree.this.name, wanted)
    expression = convert(binder.bind(tree.this), wanted, binder.zone)
    is_constant = isinstance(tree.this, exp.Literal | exp.Placeholder)
    return canonical(expression) if is_constant else expression


def _connected(binder: Binder, tree: Any, function: str) -> Expression:
    """Bind a chain of ANDs or ORs as one node: a chain may be longer than Python's stack."""
    return logical(function, [binder.bind(part) for part in _chained(tree)], binder.zone)


def _chained(tree: exp.Expression) -> list[exp.Expression]:
    """Return the operands of a chain of one operator, from left to right."""
    operands: list[exp.Expression] = []
    rest: list[exp.Expression] = [tree]
    while rest:
        part = rest.pop()
        if type(part) is type(tree):
            rest += [part.expression, part.this]
        else:
            operands.append(part)
    return operands


def _is(binder: Binder, tree: exp.Is) -> Expression:
    left, right = tree.this, tree.expression
    value = binder.bind(left)
    if isinstance(right, exp.Null):
        return Call(pa.bool_(), "is_null", (value,))
    if isinstance(right, exp.Boolean):
        wanted = TRUE if right.this else FALSE
        return comparison("<=>", cast_to(value, pa.bool_(), binder.zone), wanted, binder.zone)
    raise bad_expression(f"'{tree.sql(dialect='spark')}': IS takes NULL, TRUE or FALSE")


def _negatable(binder: Binder, tree: exp.Expression, found: Expression) -> Expression:
    return logical("not", (found,), binder.zone) if tree.args.get("negate") else found


def _between(binder: Binder, tree: exp.Between) -> Expression:
    value, low, high = (binder.bind(tree.args[part]) for part in ("this", "low", "high"))
    if tree.args.get("symmetric"):
        raise bad_expression("BETWEEN SYMMETRIC is not Spark SQL")
    both = comparison(">=", value, low, binder.zone), comparison("<=", value, high, binder.zone)
    return _negatable(binder, tree, logical("and", both, binder.zone))


def _in(binder: Binder, tree: exp.In) -> Expression:
    if not tree.expressions:
        raise bad_expression("IN takes a list of values; a query inside IN is not supported")
    options = [bound for option in tree.expressions for bound in _options(binder, option)]
    value = binder.bind(tree.this)
    found = membership(value, options, binder.zone) if options else FALSE
    return _negatable(binder, tree, found)


def _options(binder: Binder, tree: exp.Expression) -> tuple[Expression, ...]:
    """Return what one option of IN means: a parameter that is a list means its values."""
    value = argument_of(str(tree.this)) if isinstance(tree, exp.Placeholder) else None
    return value if isinstance(value, tuple) else (binder.bind(tree),)


def _case(binder: Binder, tree: exp.Case) -> Expression:
    branches = []
    for branch in tree.args["ifs"]:
        condition = binder.bind(branch.this)
        if tree.this is not None:
            condition = comparison("=", binder.bind(tree.this), condition, binder.zone)
        branches.append((condition, binder.bind(branch.args["true"])))
    default = tree.args.get("default")
    return case_when(branches, binder.bind(default) if default else None, binder.zone)


def _like(binder: Binder, tree: exp.Expression) -> Expression:
    inner, escape = (tree.this, tree.expression) if isinstance(tree, exp.Escape) else (tree, None)
    names: _Names = {exp.Like: "like", exp.ILike: "ilike"}
    function = names.get(type(inner))
    if function is None or isinstance(inner.expression, exp.Any | exp.All | exp.Tuple):
        raise bad_expression(f"'{tree.sql(dialect='spark')}' is not supported; use LIKE")
    parts = [inner.this, inner.expression, *([escape] if escape is not None else [])]
    return _negatable(binder, inner, binder.call(function, parts))


def _named_call(binder: Binder, tree: exp.Anonymous) -> Expression:
    name = str(tree.this).casefold()
    if name in binder_names.INSTANT_NAMES and not tree.expressions:
        return canonical(binder_names.instant_value(name, binder.zone))
    if name in DIFFERENCES and len(tree.expressions) == 3:
        unit, *times = tree.expressions
        if not isinstance(unit, exp.Column):
            raise bad_expression(f"{name} takes a unit such as DAY, without quotes, and two times")
        return binder.call("timestampdiff", [exp.Literal.string(unit.name), *times])
    if is_stated_join(name):
        own = binder.zone
        return stated_join(name, tree.expressions, binder.bind, lambda s: Binder(s, own).bind)
    if name != "in_zone":
        return binder.call(name, tree.expressions)
    if tree.expressions and isinstance(tree.expressions[0], exp.Placeholder):
        raise misplaced(f":{tree.expressions[0].this}", "stands for a time zone")
    if len(tree.expressions) != 2 or not isinstance(tree.expressions[0], exp.Literal):
        raise bad_expression("in_zone takes a time zone's name and an expression")
    inner = Binder(binder.columns.schema, zone_name(tree.expressions[0].this))
    return inner.bind(tree.expressions[1])


def _dot(binder: Binder, tree: exp.Dot) -> Expression:
    """Bind `window(...).start`, or a field of a struct that is not a plain column."""
    inner, name = tree.this, tree.expression.name
    if isinstance(inner, exp.Anonymous) and str(inner.this).casefold() == "window":
        if name.casefold() != "start":
            raise bad_expression(f"window(...).{name} is not supported; use window(...).start")
        arguments = tuple(binder.bind(argument) for argument in inner.expressions)
        if not WINDOW_START.fewest <= len(arguments) <= WINDOW_START.most:
            raise bad_expression("window takes a timestamp and a size such as '1 hour'")
        return WINDOW_START.build(arguments, binder.zone)
    return binder.columns.field(binder.bind(inner), name)


def _bracket(binder: Binder, tree: exp.Bracket) -> Expression:
    indices = tree.expressions
    if len(indices) != 1 or isinstance(indices[0], exp.Slice):
        raise bad_expression(f"'{tree.sql(dialect='spark')}' has no single index")
    return item_at(binder.bind(tree.this), binder.bind(indices[0]), binder.zone)


def _at_time_zone(binder: Binder, tree: exp.AtTimeZone) -> Expression:
    """Bind what a zone's clock shows at an instant, or the instant at which it shows a reading."""
    value, zone = binder.bind(tree.this), tree.args["zone"]
    if value.type not in (TIMESTAMP, TIMESTAMP_NTZ):
        raise bad_expression(f"AT TIME ZONE takes a timestamp, not {type_name(value.type)}")
    if not isinstance(zone, exp.Literal) or not zone.is_string:
        raise bad_expression("AT TIME ZONE takes the name of a time zone in quotes")
    other = TIMESTAMP_NTZ if value.type == TIMESTAMP else TIMESTAMP
    return cast_to(value, other, zone_name(zone.this))


def _trim(binder: Binder, tree: exp.Trim) -> Expression:
    name = _TRIMS[str(tree.args.get("position") or "BOTH").upper()]
    characters = [tree.expression] if tree.expression is not None else []
    return binder.call(name, [*characters, tree.this])


def _concatenation(binder: Binder, tree: exp.DPipe) -> Expression:
    return binder.call("concat", _chained(tree))


def _distinct(binder: Binder, tree: exp.Expression) -> Expression:
    same = comparison("<=>", *binder.operands(tree), binder.zone)
    return logical("not", (same,), binder.zone)


_SPECIAL: Final[dict[type[exp.Expression], Callable[[Binder, Any], Expression]]] = {
    exp.Column: _column,
    exp.Literal: _number,
    exp.Placeholder: _parameter,
    exp.Neg: _negation,
    exp.Boolean: lambda binder, tree: TRUE if tree.this else FALSE,
    exp.Null: lambda binder, tree: Literal(pa.null(), None),
    exp.HexString: lambda binder, tree: Literal(pa.binary(), _bytes_of(tree.this)),
    exp.BitwiseNot: lambda binder, tree: bitwise_not(binder.bind(tree.this)),
    exp.Paren: lambda binder, tree: binder.bind(tree.this),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.And: lambda binder, tree: _connected(binder, tree, "and"),
    exp.Or: lambda binder, tree: _connected(binder, tree, "or"),
    exp.Not: lambda binder, tree: logical("not", (binder.bind(tree.this),), binder.zone),
    exp.Is: _is,
    exp.NullSafeNEQ: _distinct,
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _like,
    exp.Anonymous: _named_call,
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Trim: _trim,
    exp.AtTimeZone: _at_time_zone,
    exp.DPipe: _concatenation,
    exp.Array: lambda binder, tree: binder.call("array", tree.expressions),
    exp.Concat: lambda binder, tree: binder.call("concat", tree.expressions),
    exp.Extract: lambda binder, tree: extract(
        tree.this.name, binder.bind(tree.expression), binder.zone
    ),
}
