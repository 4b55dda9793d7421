"""Arrow's expressions as conditions: what DuckDB, Polars and pyarrow push into a dataset.

An expression has no public form to walk, so its pickle is read: a file of Arrow's IPC with one
batch of exact scalars, and its calls in the schema's metadata (`call`, `field_ref`, `literal`,
`options`, `end`), whose keys repeat. Whoever pushes a condition does not check it again, so it has
the meaning of SQL, in which DuckDB and Polars write it: NaN equals itself and is the greatest
number, and no value is in a list where it is null.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.canonical import canonical
from projseg.algebra.expressions.functions.comparison import comparison, membership
from projseg.algebra.expressions.functions.conditional import logical
from projseg.algebra.expressions.functions.function_table import SPELLINGS
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal, scalar_literal
from projseg.errors import ProjsegError
from projseg.segment_format.logical_types import TIMESTAMP, TIMESTAMP_NTZ

_ZONE: Final = "UTC"  # no constant of Arrow's depends on a session
_COMPARISONS: Final = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_LOGICAL: Final = {"and_kleene": "and", "or_kleene": "or"}
_TEXTS: Final = {
    "starts_with": "startswith",
    "ends_with": "endswith",
    "match_substring": "contains",
}


class UnknownFilterError(Exception):
    """The condition is in no form that is read here: Arrow has to evaluate it."""


class _Field(NamedTuple):
    """A column, or a field within it."""

    path: tuple[str, ...]


class _Function(NamedTuple):
    """A call, as Arrow has it."""

    name: str
    arguments: tuple[_Field | _Function | pa.Scalar, ...]
    options: pa.StructScalar | None


_Node: TypeAlias = _Field | _Function | pa.Scalar


class ArrowFilter(msgspec.Struct, frozen=True):
    """A filter of Arrow, as the canonical condition over a table's columns that it means.

    Without a condition, Arrow has to evaluate it; without columns, those that it names are unknown,
    since the pickle is in another form.
    """

    columns: frozenset[str] | None
    condition: Expression | None


def read_filter(given: pc.Expression, schema: pa.Schema) -> ArrowFilter:
    """Return what an expression of Arrow means; it has no condition where a part is not read."""
    try:
        tree = _tree_of(given)
    except UnknownFilterError:
        return ArrowFilter(None, None)
    columns = frozenset(field.path[0] for field in _fields(tree))
    try:
        condition = canonical(_bound(tree, schema))
    except (UnknownFilterError, ProjsegError, RecursionError):
        return ArrowFilter(columns, None)
    return ArrowFilter(columns, condition if condition.type == pa.bool_() else None)


# ---- the pickle


def _tree_of(given: pc.Expression) -> _Node:
    try:
        _, (pickled,) = given.__reduce__()
        with pa.ipc.open_file(pickled) as file:
            words = _metadata(file.schema)
            scalars = file.get_batch(0).columns if file.num_record_batches else []
        parts = iter(words)
        tree = _node(next(parts), parts, scalars)
    except (ValueError, TypeError, IndexError, StopIteration, pa.ArrowException) as error:
        raise UnknownFilterError from error
    if next(parts, None) is not None:
        raise UnknownFilterError
    return tree


def _node(word: tuple[str, str], rest: Iterator[tuple[str, str]], scalars: list[pa.Array]) -> _Node:
    kind, value = word
    if kind == "literal":
        return scalars[int(value)][0]
    if kind == "field_ref":
        return _Field((value,))
    if kind == "nested_field_ref":
        names = [next(rest) for _ in range(int(value))]
        if any(name[0] != "field_ref" for name in names):
            raise UnknownFilterError
        return _Field(tuple(name for _, name in names))
    if kind != "call":
        raise UnknownFilterError
    arguments: list[_Node] = []
    options = None
    for part in rest:
        if part[0] == "end":
            return _Function(value, tuple(arguments), options)
        if part[0] == "options":
            options = scalars[int(part[1])][0]
        else:
            arguments.append(_node(part, rest, scalars))
    raise UnknownFilterError


class _ArrowSchema(ctypes.Structure):
    """The first members of the C data interface's `ArrowSchema`."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
    )


_POINTER_OF: Final = ctypes.pythonapi.PyCapsule_GetPointer
_POINTER_OF.restype = ctypes.c_void_p
_POINTER_OF.argtypes = (ctypes.py_object, ctypes.c_char_p)


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the pairs of a schema's metadata in their order; a dict would lose repeated keys."""
    capsule = schema.__arrow_c_schema__()
    place = _ArrowSchema.from_address(_POINTER_OF(capsule, b"arrow_schema")).metadata
    if place is None:
        raise UnknownFilterError

    def number() -> int:
        nonlocal place
        found = ctypes.c_int32.from_address(place).value
        place += 4
        return found

    def text() -> str:
        nonlocal place
        length = number()
        found = ctypes.string_at(place, length).decode()
        place += length
        return found

    return [(text(), text()) for _ in range(number())]


def _fields(tree: _Node) -> Iterator[_Field]:
    if isinstance(tree, _Field):
        yield tree
    elif isinstance(tree, _Function):
        for argument in tree.arguments:
            yield from _fields(argument)


# ---- the meaning


def _bound(tree: _Node, schema: pa.Schema) -> Expression:
    if isinstance(tree, _Field):
        return _column(tree, schema)
    if isinstance(tree, _Function):
        return _call(tree, schema)
    return _constant(tree)


def _column(field: _Field, schema: pa.Schema) -> Expression:
    name, *path = field.path
    places = schema.get_all_field_indices(name)
    if len(places) != 1:
        raise UnknownFilterError
    found: Expression = Column(schema.field(places[0]).type, name)
    for step in path:
        if not pa.types.is_struct(found.type) or found.type.get_field_index(step) < 0:
            raise UnknownFilterError
        found = Call(found.type.field(step).type, "field", (found,), (step,))
    return found


def _constant(scalar: pa.Scalar) -> Literal:
    """Return a scalar in the type that projseg has for it, if it keeps its value."""
    kind = scalar.type
    if pa.types.is_dictionary(kind):
        return _constant(scalar.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        wanted = TIMESTAMP_NTZ if kind.tz is None else TIMESTAMP
    elif pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        wanted = pa.string()
    elif pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        wanted = pa.binary()
    elif pa.types.is_unsigned_integer(kind) or kind == pa.date64() or kind == pa.float16():
        wanted = {pa.date64(): pa.date32(), pa.float16(): pa.float32()}.get(kind, pa.int64())
    else:
        wanted = kind
    try:
        return scalar_literal(scalar.cast(wanted))
    except (pa.ArrowException, TypeError) as error:
        raise UnknownFilterError from error


def _call(tree: _Function, schema: pa.Schema) -> Expression:
    name, arguments = tree.name, tree.arguments
    if name in _COMPARISONS:
        left, right = (_bound(one, schema) for one in arguments)
        _check_comparable(left, right)
        return comparison(_COMPARISONS[name], left, right, _ZONE)
    if name in _LOGICAL:
        return logical(_LOGICAL[name], [_bound(one, schema) for one in arguments], _ZONE)
    read = _CALLS.get(name)
    if read is None:
        raise UnknownFilterError
    return read(tree, schema)


def _check_comparable(left: Expression, right: Expression) -> None:
    """Leave to Arrow what would compare times with and without a zone, or texts with others."""
    kinds = {left.type, right.type}
    if len(kinds) > 1 and kinds & {TIMESTAMP, TIMESTAMP_NTZ, pa.string(), pa.binary(), pa.bool_()}:
        raise UnknownFilterError


def _not(tree: _Function, schema: pa.Schema) -> Expression:
    (condition,) = tree.arguments
    return logical("not", [_bound(condition, schema)], _ZONE)


def _is_null(tree: _Function, schema: pa.Schema) -> Expression:
    (value,) = (_bound(one, schema) for one in tree.arguments)
    found = Call(pa.bool_(), "is_null", (value,))
    if tree.options is not None and tree.options["nan_is_null"].as_py():
        return logical("or", [found, _equals_nan(value)], _ZONE)
    return found


def _is_valid(tree: _Function, schema: pa.Schema) -> Expression:
    (value,) = (_bound(one, schema) for one in tree.arguments)
    return logical("not", [Call(pa.bool_(), "is_null", (value,))], _ZONE)


def _is_nan(tree: _Function, schema: pa.Schema) -> Expression:
    (value,) = (_bound(one, schema) for one in tree.arguments)
    return _equals_nan(value)


def _equals_nan(value: Expression) -> Expression:
    """Return whether a value is NaN; null where it is null, which a test of Spark's is not."""
    if not pa.types.is_floating(value.type):
        raise UnknownFilterError
    return comparison("=", value, Literal(value.type, math.nan), _ZONE)


def _is_in(tree: _Function, schema: pa.Schema) -> Expression:
    (value,) = (_bound(one, schema) for one in tree.arguments)
    if tree.options is None:
        raise UnknownFilterError
    options = [_constant(one) for one in tree.options["value_set"]]
    if not options:
        raise UnknownFilterError
    for option in options:
        if option.value is not None:
            _check_comparable(value, option)
    return membership(value, options, _ZONE)


def _if_else(tree: _Function, schema: pa.Schema) -> Expression:
    """Read DuckDB's form of IN: `if_else(is_valid(x), is_in(x, ...), null)`."""
    test, found, other = tree.arguments
    is_form = (
        isinstance(test, _Function)
        and test.name == "is_valid"
        and isinstance(found, _Function)
        and found.name == "is_in"
        and found.arguments == test.arguments
        and isinstance(other, pa.Scalar)
        and not other.is_valid
    )
    if not is_form:
        raise UnknownFilterError
    return _bound(found, schema)


def _text_match(tree: _Function, schema: pa.Schema) -> Expression:
    (value,) = (_bound(one, schema) for one in tree.arguments)
    options = tree.options
    if options is None or options["ignore_case"].as_py() or value.type != pa.string():
        raise UnknownFilterError
    pattern = Literal(pa.string(), options["pattern"].cast(pa.string()).as_py())
    return SPELLINGS[_TEXTS[tree.name]].build((value, pattern), _ZONE)


def _cast(tree: _Function, schema: pa.Schema) -> Expression:
    """Read the cast of a constant; that of a column may fail, or be another than Spark's."""
    (value,) = tree.arguments
    if not isinstance(value, pa.Scalar) or tree.options is None:
        raise UnknownFilterError
    try:
        return _constant(value.cast(tree.options["to_type"].type))
    except pa.ArrowException as error:
        raise UnknownFilterError from error


_CALLS: Final[dict[str, Callable[[_Function, pa.Schema], Expression]]] = {
    "invert": _not,
    "is_null": _is_null,
    "is_valid": _is_valid,
    "is_nan": _is_nan,
    "is_in": _is_in,
    "if_else": _if_else,
    "cast": _cast,
    **dict.fromkeys(_TEXTS, _text_match),
}
