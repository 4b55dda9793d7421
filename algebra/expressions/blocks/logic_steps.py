"""Comparisons, three-valued logic, CASE and COALESCE in blocks.

Nothing here raises an error. An operand that may fail is required to succeed in those rows alone
that `functions/logic/conditional.py` would compute it for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from projseg.algebra.expressions.blocks.block_builder import (
    BlockBuilder,
    Computed,
    Form,
    LazyForm,
    NotInBlocksError,
    Value,
    is_exact,
)
from projseg.algebra.expressions.blocks.number_steps import aligned
from projseg.algebra.expressions.blocks.wide_steps import equal as are_equal
from projseg.algebra.expressions.blocks.wide_steps import less as is_less
from projseg.algebra.expressions.blocks.wide_steps import upper_of
from projseg.algebra.expressions.tree import Call
from projseg.kernels.block_operations import Operation

_OPTIONS_MAX: Final = 16


@contextmanager
def _wanted_where(blocks: BlockBuilder, truth: int) -> Iterator[None]:
    """Ask for values only where `truth` holds 1, too."""
    before = blocks.wanted
    blocks.wanted = blocks.both(before, truth)
    try:
        yield
    finally:
        blocks.wanted = before


def equal(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return where two values are equal."""
    if is_exact(call.arguments[0].type):
        left, right = aligned(call, arguments, blocks)
        return _truth(blocks, are_equal(blocks, left, right), left, right)
    return _of_doubles(blocks, Operation.EQUAL_DOUBLES, *arguments)


def less(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return where the first value is less than the second."""
    if is_exact(call.arguments[0].type):
        left, right = aligned(call, arguments, blocks)
        return _truth(blocks, is_less(blocks, left, right), left, right)
    return _of_doubles(blocks, Operation.LESS_DOUBLES, *arguments)


def greater(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return where the first value is greater than the second."""
    swapped = Call(call.type, "<", call.arguments[::-1])
    return less(swapped, arguments[::-1], blocks)


def _truth(blocks: BlockBuilder, register: int, left: Value, right: Value) -> Value:
    return Value(register, 0, 1, blocks.both(left.validity, right.validity))


def _of_doubles(blocks: BlockBuilder, operation: Operation, left: Value, right: Value) -> Value:
    return _truth(blocks, blocks.emit(operation, left.register, right.register), left, right)


def _negated(form: Form) -> Form:
    """Return the form of the opposite truth value."""

    def compute(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
        found = form(call, arguments, blocks)
        opposite = blocks.opposite(found.register)
        return replace(found, register=opposite, low=1 - found.high, high=1 - found.low)

    return compute


def equal_or_both_null(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return where two values are equal or both are null."""
    found = equal(call, arguments, blocks)
    if found.validity is None:
        return found
    equal_values = blocks.emit(Operation.AND, found.register, found.validity)
    some = [blocks.register_of(value.validity) for value in arguments]
    one_is_there = blocks.emit(Operation.OR, *some)
    return Value(blocks.emit(Operation.OR, equal_values, blocks.opposite(one_is_there)), 0, 1)


def is_null(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return where there is no value."""
    validity = arguments[0].validity
    return blocks.constant(0) if validity is None else Value(blocks.opposite(validity), 0, 1)


def is_nan(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return where a double is NaN."""
    nan = blocks.double(float("nan"))
    found = _of_doubles(blocks, Operation.EQUAL_DOUBLES, arguments[0], nan)
    return Value(_true(found, blocks), 0, 1)


def _true(value: Value, blocks: BlockBuilder) -> int:
    """Return the register that holds 1 where a truth value is true, not false or null."""
    if value.validity is None:
        return value.register
    return blocks.emit(Operation.AND, value.register, value.validity)


def _false(value: Value, blocks: BlockBuilder) -> int:
    if value.validity is None:
        return blocks.opposite(value.register)
    return blocks.emit(Operation.XOR, value.validity, _true(value, blocks))


def is_in(call: Call, arguments: Sequence[Value], blocks: BlockBuilder) -> Value:
    """Return where a value is one of some options."""
    value, *options = arguments
    if len(options) > _OPTIONS_MAX or not is_exact(call.arguments[0].type):
        raise NotInBlocksError("many options, or doubles")
    found = blocks.constant(0).register
    for option in options:
        is_option = are_equal(blocks, value, option)
        found = blocks.emit(Operation.OR, found, is_option if option.validity is None else found)
    validity = value.validity
    if any(option.validity is not None for option in options):
        validity = blocks.both(validity, found)
    return Value(found, 0, 1, validity)


def _connective(decider: Callable[[Value, BlockBuilder], int]) -> LazyForm:
    """Return AND, which is false if one operand is, or OR, which is true if one is."""
    is_and = decider is _false

    def compute(call: Call, computed: Computed, blocks: BlockBuilder) -> Value:
        decided, others = blocks.constant(0).register, blocks.constant(1).register
        nullable = False
        for operand in call.arguments:
            with _wanted_where(blocks, blocks.opposite(decided)):
                value = computed(operand)
            other = _true(value, blocks) if is_and else _false(value, blocks)
            decided = blocks.emit(Operation.OR, decided, decider(value, blocks))
            others = blocks.emit(Operation.AND, others, other)
            nullable = nullable or value.validity is not None
        validity = blocks.emit(Operation.OR, decided, others) if nullable else None
        return Value(others if is_and else decided, 0, 1, validity)

    return compute


def case(call: Call, computed: Computed, blocks: BlockBuilder) -> Value:
    """Return the value of the first branch whose condition is true."""
    *pairs, default = call.arguments
    open_rows = blocks.constant(1).register
    branches: list[tuple[int, Value]] = []
    for condition, chosen in zip(pairs[::2], pairs[1::2], strict=True):
        with _wanted_where(blocks, open_rows):
            taken = _true(computed(condition), blocks)
        with _wanted_where(blocks, blocks.emit(Operation.AND, open_rows, taken)):
            branches.append((taken, computed(chosen)))
        open_rows = blocks.emit(Operation.AND, open_rows, blocks.opposite(taken))
    with _wanted_where(blocks, open_rows):
        result = computed(default)
    for taken, value in reversed(branches):
        result = _chosen(blocks, taken, value, result)
    return result


def _chosen(blocks: BlockBuilder, truth: int, value: Value, other: Value) -> Value:
    """Return `value` where `truth` holds 1, else `other`."""
    register = blocks.emit(Operation.SELECT, truth, value.register, other.register)
    validity = None
    if value.validity is not None or other.validity is not None:
        both = blocks.register_of(value.validity), blocks.register_of(other.validity)
        validity = blocks.emit(Operation.SELECT, truth, *both)
    low, high = min(value.low, other.low), max(value.high, other.high)
    upper = None
    if value.upper is not None or other.upper is not None:
        uppers = upper_of(blocks, value), upper_of(blocks, other)
        upper = blocks.emit(Operation.SELECT, truth, *uppers)
    return Value(register, low, high, validity, upper, min(value.zeros, other.zeros))


def coalesce(call: Call, computed: Computed, blocks: BlockBuilder) -> Value:
    """Return the first value that is not null."""
    first, *others = call.arguments
    result = computed(first)
    for argument in others:
        if result.validity is None:
            break
        present = result.validity
        with _wanted_where(blocks, blocks.opposite(present)):
            value = computed(argument)
        found = _chosen(blocks, present, replace(result, validity=None), value)
        is_there = None
        if value.validity is not None:
            is_there = blocks.emit(Operation.OR, present, value.validity)
        result = replace(found, validity=is_there)
    return result


different: Final = _negated(equal)
not_less: Final = _negated(less)
not_greater: Final = _negated(greater)
is_not: Final = _negated(lambda call, arguments, blocks: arguments[0])
all_of: Final = _connective(_false)
any_of: Final = _connective(_true)
