"""The keys that an index may be asked about, of a condition: a tree of AND, OR and sets of keys.

What no index serves is anything: a part of an AND that says nothing, and all of an OR. Each kind of
index has a function here that reads keys from one condition; SPEC.md section 15 has the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from projseg.algebra.expressions.tree import Call, Column, Expression, Literal

VALUES_MAX: Final = 1_024
"""Values of one condition that an index is asked about."""


class Keys(msgspec.Struct, frozen=True):
    """A row can fulfil a condition only if its segment holds one of some keys.

    Parameters
    ----------
    kind, column : str
        Of the index, and the column by the table's name.
    condition : Expression
        The condition.
    values : tuple of Literal
        The keys, of the column's type; no row can fulfil a condition without any.
    """

    kind: str
    column: str
    condition: Expression
    values: tuple[Literal, ...]


class AllOf(msgspec.Struct, frozen=True):
    """Each part must be possible."""

    parts: tuple[KeyTree, ...]


class AnyOf(msgspec.Struct, frozen=True):
    """One part must be possible."""

    parts: tuple[KeyTree, ...]


KeyTree = Keys | AllOf | AnyOf


class Refusal(msgspec.Struct, frozen=True):
    """A condition on an indexed column that gives no keys, and why: a code of `INDEX_REASONS`."""

    column: str
    condition: Expression
    reason: str


INDEX_REASONS: Final[dict[str, str]] = {
    "NOT_BUILT": "segments have no filter; `materialize_index` makes them",
    "NO_KEY": "the condition, or another part of its OR, is no = or IN with constants",
    "TOO_MANY_VALUES": f"the condition has more than {VALUES_MAX} values",
    "TYPE_CHANGED": "the column was widened to a type whose values have other hashes",
    "NOTHING_LEFT": "fewer than two segments were left already",
    "COSTLIER": "the filters to read are more than a quarter of what they could save",
    "DAMAGED": "a Bloom file is missing or damaged; `verify` names it",
    "EXCLUDED": "`excludeIndexes` names the index",
    "DISABLED": "`noIndexes` is set",
}
"""Why an index was not used for a condition, or not for all segments, by its code."""


class IndexUse(msgspec.Struct, frozen=True):
    """What an index did for one condition of a query.

    Parameters
    ----------
    index, column, condition : str
        Names and canonical text, which is cut if it is long.
    used : bool
        Whether filters were asked.
    reason : str or None
        Why not, or why not for all segments: a code, and a number of segments.
    segments, left : int
        Segments before, and those that the condition alone leaves.
    files, bytes : int
        Bloom files that were asked, and bytes of the pages that hold the keys' rows.
    """

    index: str
    column: str
    condition: str
    used: bool
    reason: str | None
    segments: int
    left: int
    files: int = 0
    bytes: int = 0


def keys_of(
    condition: Expression | None, kinds: Mapping[str, frozenset[str]]
) -> tuple[KeyTree | None, tuple[Refusal, ...]]:
    """Return the keys that a condition needs, and what indexed columns give none.

    Parameters
    ----------
    condition : Expression or None
        Canonical; rows where it is true are wanted.
    kinds : mapping of str to frozenset of str
        The kinds of indexes that each column has, by the table's names.

    Returns
    -------
    (KeyTree or None, tuple of Refusal)
        None: any segment may hold a row.
    """
    refusals: list[Refusal] = []
    tree = None if condition is None else _tree(condition, kinds, refusals)
    return tree, tuple(refusals)


def leaves(tree: KeyTree | None) -> tuple[Keys, ...]:
    """Return the sets of keys of a tree, in order."""
    if tree is None:
        return ()
    if isinstance(tree, Keys):
        return (tree,)
    return tuple(leaf for part in tree.parts for leaf in leaves(part))


def _tree(
    condition: Expression, kinds: Mapping[str, frozenset[str]], refusals: list[Refusal]
) -> KeyTree | None:
    if isinstance(condition, Call) and condition.function in ("and", "or"):
        # What is null or false makes no OR true: IN with a null is an OR with null.
        parts = [
            _tree(part, kinds, refusals)
            for part in condition.arguments
            if condition.function == "and" or not _is_never_true(part)
        ]
        known = tuple(part for part in parts if part is not None)
        if condition.function == "and":
            return known[0] if len(known) == 1 else AllOf(known) if known else None
        if len(known) == len(parts):
            return AnyOf(known)
        asked = {leaf.column: None for part in known for leaf in leaves(part)}
        refusals += [Refusal(column, condition, "NO_KEY") for column in asked]
        return None
    found: list[KeyTree] = []
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


def _equal_values(condition: Expression, column: str) -> Keys | Refusal:
    """Return the values that a column must have one of."""
    refusal = Refusal(column, condition, "NO_KEY")
    if not isinstance(condition, Call) or condition.function not in ("=", "<=>", "in"):
        return refusal
    value, *constants = condition.arguments
    if not isinstance(value, Column) or value.name != column:
        return refusal
    literals = [one for one in constants if isinstance(one, Literal) and one.type == value.type]
    if len(literals) != len(constants):
        return refusal
    known = tuple(one for one in literals if one.value is not None)
    if condition.function == "<=>" and not known:
        return refusal
    if len(known) > VALUES_MAX:
        return Refusal(column, condition, "TOO_MANY_VALUES")
    return Keys("bloom", column, condition, known)


_KEYS: Final[dict[str, Callable[[Expression, str], Keys | Refusal]]] = {"bloom": _equal_values}
"""By kind of index, what keys one condition gives of one column."""
