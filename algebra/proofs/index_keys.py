"""The keys that an index may be asked about, of a condition: a tree of AND, OR and sets of keys.

What no index serves is anything: a part of an AND that says nothing, and all of an OR. Each kind of
index has a function here that reads keys from one condition; SPEC.md section 15 has the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec
import pyarrow as pa

from projseg.algebra.expressions.functions.pattern_functions import like_pieces
from projseg.algebra.expressions.functions.text_match import text_query_of
from projseg.algebra.expressions.patterns import read_pattern
from projseg.algebra.expressions.patterns.pattern_part import Runs
from projseg.algebra.expressions.patterns.text_query import (
    Every,
    OfColumn,
    Phrase,
    TextQuery,
    Without,
)
from projseg.algebra.expressions.tree import Call, Column, Expression, Literal
from projseg.errors import ProjsegError
from projseg.segment_format.indexes.text_keys import folds_to_nothing, grams_of

_VALUES_MAX: Final = 1_024
"""Values of one condition that an index is asked about."""

NO_EXPRESSIONS: Final[Mapping[Expression, str]] = MappingProxyType({})

GRAMS_MAX: Final = 16
"""Runs of three characters of one value or pattern that an index is asked about."""


Part = TypeVar("Part")


class AllOf(msgspec.Struct, Generic[Part], frozen=True):
    """Each part must be possible."""

    parts: tuple[Part, ...]


class AnyOf(msgspec.Struct, Generic[Part], frozen=True):
    """One part must be possible."""

    parts: tuple[Part, ...]


class OneOf(msgspec.Struct, frozen=True):
    """One key must be there; nothing is possible without any.

    Keys are of one type: values of the column, words, or numbers of three characters.
    """

    values: tuple[Literal, ...]


Needed: TypeAlias = "OneOf | AllOf[Needed] | AnyOf[Needed]"


class Keys(msgspec.Struct, frozen=True):
    """A condition that a row can fulfil only if its segment holds some keys of an index.

    The index is of a kind and a column by the table's name.
    """

    kind: str
    column: str
    condition: Expression
    needed: Needed


KeyTree: TypeAlias = "Keys | AllOf[KeyTree] | AnyOf[KeyTree]"


class Refusal(msgspec.Struct, frozen=True):
    """A condition that gives an index no keys, and why: a code of `INDEX_REASONS`."""

    kind: str
    column: str
    condition: Expression
    reason: str


INDEX_REASONS: Final[dict[str, str]] = {
    "NOT_BUILT": "segments have no filter; `materialize_index` makes them",
    "NO_KEY": "the condition, or another part of its OR, is none that the kind of index serves",
    "PATTERN_TOO_SHORT": "the pattern has no three characters in a row",
    "TOO_MANY_VALUES": f"the condition has more than {_VALUES_MAX} values",
    "TYPE_CHANGED": "the column was widened to a type whose values have other hashes, or its words "
    "are of a later version of Unicode",
    "NOTHING_LEFT": "fewer than two segments were left already",
    "COSTLIER": "the filters to read are more than a quarter of what they could save",
    "DAMAGED": "a Bloom file is missing or damaged; `verify` names it",
    "EXCLUDED": "`excludeIndexes` names the index",
    "DISABLED": "`noIndexes` is set",
}
"""Why an index was not used for a condition, or not for all segments, by its code."""


class IndexUse(msgspec.Struct, frozen=True):
    """What an index did for one condition of a query.

    `reason` says why filters were not used, or not for all segments: a code, and a number of
    segments. `segments` are those before, `left` those that the condition alone leaves; `bytes` are
    of the pages of the Bloom files that hold the keys' rows. A long condition is cut.
    """

    index: str
    column: str
    condition: str
    used: bool
    reason: str | None
    segments: int
    left: int
    definition_hash: str
    files: int = 0
    bytes: int = 0


def keys_of(
    condition: Expression | None,
    kinds: Mapping[str, frozenset[str]],
    expressions: Mapping[Expression, str] = NO_EXPRESSIONS,
) -> tuple[KeyTree | None, tuple[Refusal, ...]]:
    """Return the keys that a canonical condition needs, and why other indexed columns give none."""
    refusals: list[Refusal] = []
    tree = None if condition is None else _tree(condition, kinds, expressions, refusals)
    return tree, tuple(refusals)


def fewer_keys(needed: Needed) -> Needed:
    """Return half of the keys that are needed together, which says less; the same if one is."""
    if isinstance(needed, OneOf):
        return needed
    parts = needed.parts[::2] if isinstance(needed, AllOf) else needed.parts
    if len(needed.parts) == 1 or isinstance(needed, AnyOf):
        parts = tuple(fewer_keys(part) for part in parts)
    return type(needed)(parts)


def leaves(tree: KeyTree | None) -> tuple[Keys, ...]:
    """Return the sets of keys of a tree, in order."""
    if tree is None:
        return ()
    if isinstance(tree, Keys):
        return (tree,)
    return tuple(leaf for part in tree.parts for leaf in leaves(part))


def _tree(
    condition: Expression,
    kinds: Mapping[str, frozenset[str]],
    expressions: Mapping[Expression, str],
    refusals: list[Refusal],
) -> KeyTree | None:
    if isinstance(condition, Call) and condition.function in ("and", "or"):
        # What is null or false makes no OR true: IN with a null is an OR with null.
        parts = [
            _tree(part, kinds, expressions, refusals)
            for part in condition.arguments
            if condition.function == "and" or not _is_never_true(part)
        ]
        known = tuple(part for part in parts if part is not None)
        if condition.function == "and":
            return known[0] if len(known) == 1 else AllOf(known) if known else None
        if len(known) == len(parts):
            return AnyOf(known)
        asked = {(leaf.kind, leaf.column): None for part in known for leaf in leaves(part)}
        refusals += [Refusal(*index, condition, "NO_KEY") for index in asked]
        return None
    found: list[KeyTree] = []
    left = condition.children[0] if condition.children else condition
    if left in expressions:
        keys = _equal_values(condition, expressions[left], left)
        if isinstance(keys, Refusal):
            refusals.append(keys)
        else:
            found.append(keys)
    for column in sorted(condition.columns & kinds.keys()):
        for kind in sorted(kinds[column]):
            keys = _KEYS[kind](condition, column)
            if isinstance(keys, Refusal):
                refusals.append(keys)
            else:
                found.append(keys)
    return found[0] if len(found) == 1 else AllOf(tuple(found)) if found else None


def _is_never_true(condition: Expression) -> bool:
    return isinstance(condition, Literal) and condition.value is not True


def _equal_values(
    condition: Expression, column: str, expression: Expression | None = None
) -> Keys | Refusal:
    """Return the values that a column, or the expression of that text, must have one of."""
    refusal = Refusal("bloom", column, condition, "NO_KEY")
    if not isinstance(condition, Call) or condition.function not in ("=", "<=>", "in"):
        return refusal
    value, *constants = condition.arguments
    if value != expression and not _is_column(value, column):
        return refusal
    literals = [one for one in constants if isinstance(one, Literal) and one.type == value.type]
    if len(literals) != len(constants):
        return refusal
    known = tuple(one for one in literals if one.value is not None)
    if condition.function == "<=>" and not known:
        return refusal
    if len(known) > _VALUES_MAX:
        return Refusal("bloom", column, condition, "TOO_MANY_VALUES")
    return Keys("bloom", column, condition, OneOf(known))


def _text_words(condition: Expression, column: str) -> Keys | Refusal:
    """Return the words that a column's text must hold."""
    refusal = Refusal("token", column, condition, "NO_KEY")
    if not isinstance(condition, Call) or condition.function != "text_match":
        return refusal
    if not _is_column(condition.arguments[0], column):
        return refusal
    needed = _words_of_query(text_query_of(condition))
    return refusal if needed is None else Keys("token", column, condition, needed)


def _words_of_query(query: TextQuery) -> Needed | None:
    if isinstance(query, Phrase):
        words = dict.fromkeys(word for word in query.words if "*" not in word)
        return _all_of(OneOf((Literal(pa.string(), word),)) for word in words)
    if isinstance(query, Without | OfColumn):
        return None
    parts = [_words_of_query(part) for part in query.parts]
    return _all_of(parts) if isinstance(query, Every) else _any_of(parts)


def _all_of(parts: Iterable[Needed | None]) -> Needed | None:
    known = tuple(part for part in parts if part is not None)
    return known[0] if len(known) == 1 else AllOf(known) if known else None


def _any_of(parts: Iterable[Needed | None]) -> Needed | None:
    several = tuple(parts)
    known = tuple(part for part in several if part is not None)
    if len(known) < len(several):
        return None
    if len(known) == 1:
        return known[0]
    return AnyOf(known) if known else OneOf(())


def _text_grams(condition: Expression, column: str) -> Keys | Refusal:
    """Return the runs of three characters that a column's text must hold.

    They are folded, and a text folds as its lower case does.
    """
    refusal = Refusal("ngram", column, condition, "NO_KEY")
    if not isinstance(condition, Call) or condition.function not in _GRAMS:
        return refusal
    text, *constants = condition.arguments
    if isinstance(text, Call) and text.function == "lower":
        (text,) = text.arguments
    literals = [one for one in constants if isinstance(one, Literal) and one.type == text.type]
    if not _is_column(text, column) or len(literals) != len(constants):
        return refusal
    values = [one.value for one in literals if one.value is not None]
    if condition.function == "<=>" and not values:
        return refusal
    if len(values) > _VALUES_MAX:
        return Refusal("ngram", column, condition, "TOO_MANY_VALUES")
    grams = _GRAMS[condition.function]
    needed = _any_of(grams(str(value)) for value in values)
    if needed is not None:
        return Keys("ngram", column, condition, needed)
    is_short = condition.function != "rlike"
    return Refusal("ngram", column, condition, "PATTERN_TOO_SHORT") if is_short else refusal


def _grams_of_text(value: str) -> Needed | None:
    return _grams_of_runs((value,))


def _grams_of_like(pattern: str) -> Needed | None:
    """Return the grams of the literal runs of a LIKE pattern, between its wildcards."""
    return _grams_of_runs(
        "".join(part for part in run if part is not None)
        for piece in like_pieces(pattern)
        for _, run in groupby(piece, lambda part: part is None)
    )


def _grams_of_regex(pattern: str) -> Needed | None:
    """Return at most `GRAMS_MAX` grams that every match of a regular expression holds."""
    try:
        needed = _grams_of_options((read_pattern(pattern).runs,))
    except ProjsegError:  # what evaluates the condition says so
        return None
    while needed is not None and _count(needed) > GRAMS_MAX:
        fewer = fewer_keys(needed)
        needed = fewer if fewer != needed else None
    return needed


def _grams_of_options(options: tuple[Runs, ...]) -> Needed | None:
    return _any_of(_all_of(_parts_of(runs)) for runs in options)


def _parts_of(runs: Runs) -> Iterator[Needed | None]:
    literals = (run for run in runs if isinstance(run, str))
    yield _grams_of_runs(
        "".join(part) for literal in literals for _, part in groupby(literal, folds_to_nothing)
    )
    yield from (_grams_of_options(run) for run in runs if isinstance(run, tuple))


def _count(needed: Needed) -> int:
    if isinstance(needed, OneOf):
        return len(needed.values)
    return sum(_count(part) for part in needed.parts)


_GRAMS: Final[dict[str, Callable[[str], Needed | None]]] = {
    "=": _grams_of_text,
    "<=>": _grams_of_text,
    "in": _grams_of_text,
    "contains": _grams_of_text,
    "startswith": _grams_of_text,
    "endswith": _grams_of_text,
    "like": _grams_of_like,
    "rlike": _grams_of_regex,
}
"""By condition, the grams that a text must hold for its constant."""


def _grams_of_runs(runs: Iterable[str]) -> Needed | None:
    """Return some of the grams of literal runs, spread over them."""
    grams = tuple(dict.fromkeys(gram for run in runs for gram in grams_of(run)))
    step = max(1, -(-len(grams) // GRAMS_MAX))
    return _all_of(OneOf((Literal(pa.int64(), gram),)) for gram in grams[::step])


def _is_column(value: Expression, column: str) -> bool:
    return isinstance(value, Column) and value.name == column


_KEYS: Final[dict[str, Callable[[Expression, str], Keys | Refusal]]] = {
    "bloom": _equal_values,
    "token": _text_words,
    "ngram": _text_grams,
}
"""By kind of index, what keys one condition gives of one column."""
