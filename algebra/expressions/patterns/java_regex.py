"""Find, take, split at and replace what a pattern of Java's matches, by RE2."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from projseg.algebra.expressions.coercion import bad_expression
from projseg.algebra.expressions.patterns.parser import parse_pattern
from projseg.algebra.expressions.patterns.pattern_part import (
    LINE_ENDS,
    TEXT_END,
    CodePoints,
    PatternPart,
    Runs,
    complement,
    intersection,
    unsupported,
)
from projseg.errors import EvaluationError
from projseg.memory.deadline import Deadline, check_deadline, deadline_of_thread, under
from projseg.segment_format.arrow_arrays import primitive_array, text_array, text_buffers

# How much time a pattern may take for a text.
#
# RE2's time grows with the text and, where its automaton has more states than it keeps, with the
# pattern too: counted repetitions inside each other make it a thousand times slower. That is not
# known before it is tried.

SECONDS_MAX: Final = 1.0
"""Of processor time, besides a second for each `_BYTES_A_SECOND` of text."""
_BYTES_A_SECOND: Final = 4 << 20
_PARTS_MAX: Final = 10_000
"""A pattern may not have more parts, each as often as it is repeated."""
_PARTS_AT_ONCE: Final = 100
"""A pattern of fewer parts, each as often as it is repeated, takes RE2 little time for any text."""
_SLICE_BYTES: Final = 1 << 16


@contextmanager
def patience(pattern: str, byte_count: int) -> Iterator[None]:
    """End the block with an error if it takes too much of this thread's processor time.

    The time depends on the pattern and the bytes searched. `check_deadline` raises
    PROJSEG_EVALUATION_TOO_LONG in the block.
    """
    seconds = SECONDS_MAX + byte_count / _BYTES_A_SECOND

    def error() -> EvaluationError:
        return EvaluationError(
            "PROJSEG_EVALUATION_TOO_LONG",
            f"the regular expression '{pattern}' took more than {seconds:.1f} seconds over "
            f"{byte_count >> 10} KiB of text; write it without counted repetitions inside "
            "each other",
        )

    limit = Deadline(seconds, error, clock=time.thread_time, outer=deadline_of_thread())
    with under(limit):
        yield
        check_deadline()


def _in_slices(pattern: str, search: Callable[[pa.Array], pa.Array], texts: pa.Array) -> pa.Array:
    """Return what a search finds in texts; it gets a slice of them at a time.

    Raises the errors of `patience`.
    """
    step = max(1, len(texts) * _SLICE_BYTES // max(1, texts.nbytes))
    found = []
    with patience(pattern, texts.nbytes):
        for start in range(0, max(1, len(texts)), step):
            check_deadline()
            found.append(search(texts.slice(start, step)))
    return pa.concat_arrays(found)


_NAMED: Final = re.compile(r"\(\?P<g([0-9]+)>|" + re.escape(TEXT_END))
_GROUPS_MAX: Final = 9
_SIGNS: Final = frozenset(r"\^$.|?*+()[]{}")


class JavaRegex:
    """A compiled pattern of `java.util.regex.Pattern`, without separate flags.

    Raises InvalidInputError (PROJSEG_BAD_EXPRESSION) if Java refuses it, UnsupportedFeatureError
    (PROJSEG_UNSUPPORTED_FUNCTION) unless it surely means the same in RE2, and LimitExceededError
    (PROJSEG_EXPRESSION_TOO_LONG) if its groups are nested too deeply.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._root = parse_pattern(text)
        if self._root.size > _PARTS_MAX:
            raise unsupported(
                text, f"more than {_PARTS_MAX:,} parts, as often as they are repeated"
            )
        self._found = _checked(text, _named(self._root, {}))

    @property
    def size(self) -> int:
        """How many parts it has, each as often as it is repeated."""
        return self._root.size

    @property
    def may_fail(self) -> bool:
        """Whether texts may take more time than is allowed."""
        return self.size > _PARTS_AT_ONCE

    @property
    def one_or_more(self) -> tuple[CodePoints, bool] | None:
        """The set of which it takes one character, or as many as there are; None if neither."""
        return self._root.one_or_more

    @property
    def runs(self) -> Runs:
        """Literal texts that every text in which it is found holds."""
        return self._root.runs

    def search(self, texts: pa.Array) -> pa.Array:
        """Return bool[n], whether the pattern is found anywhere in each text; null for null.

        Raises PROJSEG_EVALUATION_TOO_LONG if `may_fail` and the texts take too much time.
        """
        return self._each(lambda some: pc.match_substring_regex(some, self._found), texts)

    def _each(self, compute: Callable[[pa.Array], pa.Array], texts: pa.Array) -> pa.Array:
        return _in_slices(self._text, compute, texts) if self.may_fail else compute(texts)


class Finder(JavaRegex):
    """A pattern of which one group, by its number, is looked for; 0 is the whole match.

    Raises the errors of `JavaRegex`; also if the pattern has no such group, or if what Java finds
    depends on details of its implementation.
    """

    def __init__(self, text: str, group: int) -> None:
        super().__init__(text)
        _check_extent(text, self._root, group)
        if group:
            self._found = _named(self._root, {group: "found"})
        else:
            whole = _named(self._root, {})
            end = TEXT_END if self._root.is_ended else ""
            self._found = f"(?P<found>{whole.removesuffix(end)}){end}"

    def extract(self, texts: pa.Array) -> pa.Array:
        """Return what the group holds at the first match in each text.

        It is empty where nothing matches or the group takes no part, and null for null. Raises the
        errors of `JavaRegex.search`.
        """
        return self._each(self._extract, texts)

    def _extract(self, texts: pa.Array) -> pa.Array:
        found = pc.struct_field(pc.extract_regex(texts, self._found), "found")
        return pc.if_else(pc.is_valid(texts), pc.fill_null(found, ""), texts)


class Splitter(JavaRegex):
    """A pattern at which texts are split.

    Raises the errors of `Finder`; also for a pattern with `^` or `$`, or one that may match the
    empty text and is not itself empty.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        _check_extent(text, self._root, 0)
        if text and self._root.least == 0:
            raise unsupported(text, "matches of the empty text, where Java splits in its own way")
        if self._root.has_condition:
            raise unsupported(text, "^, $, \\A, \\z or \\Z, at which texts are split")

    @property
    def is_plain(self) -> bool:
        """Whether it is a pattern of itself."""
        return _SIGNS.isdisjoint(self._text)

    def split(self, texts: pa.Array, limit: int) -> pa.Array:
        """Return the parts of each text between matches, as Java's `String.split` gives them.

        There are at most `limit` parts, any number below 1; empty parts at the end stay. Raises the
        errors of `JavaRegex.search`.
        """
        if not self._text:
            return _characters(texts, limit)
        most = limit - 1 if limit > 0 else None
        if self.is_plain:
            return pc.split_pattern(texts, self._text, max_splits=most)
        return self._each(
            lambda some: pc.split_pattern_regex(some, self._found, max_splits=most), texts
        )


class Replacer(JavaRegex):
    r"""A pattern whose every match is replaced.

    In the replacement, `$1` is what the first group holds, `\\$` a dollar. Raises the errors of
    `Finder`; also for groups by name, and for a pattern that may match the empty text.
    """

    def __init__(self, text: str, replacement: str) -> None:
        super().__init__(text)
        root = self._root
        if root.least == 0:
            raise unsupported(text, "matches of the empty text, which Java finds within characters")
        # The text of $ takes the line end before which Java goes on to search.
        left = intersection(root.first, LINE_ENDS, complement(root.kept))
        if root.has_end and left:
            raise unsupported(text, "$ or \\Z before a line end that it may match itself")
        parts = tuple(_parts(text, replacement, len(root.groups)))
        is_text = all(isinstance(part, str) for part in parts)
        self.text_instead = "".join(map(str, parts)) if is_text else None
        """What stands in place of each match, if it is the same text for all."""
        wanted = {part for part in parts if isinstance(part, int) and part}
        for group in wanted:
            _check_extent(text, root, group)
        if root.repeats_nothing:
            raise unsupported(text, _REPEATS_NOTHING)
        # The groups of RE2's form in their order; those of $ are 0.
        order = [int(found[1] or 0) for found in _NAMED.finditer(root.text)]
        order = [group for group in order if not group or group in wanted]
        if len(order) > _GROUPS_MAX:
            raise unsupported(text, f"more than {_GROUPS_MAX} groups that are replaced")
        places = {group: place for place, group in enumerate(order, start=1) if group}
        self._instead = "".join(
            part.replace("\\", "\\\\") if isinstance(part, str) else f"\\{places.get(part, 0)}"
            for part in parts
        ) + "".join(f"\\{place}" for place, group in enumerate(order, start=1) if not group)
        self._found = _named(root, dict.fromkeys(wanted, ""), has_ends=True)

    def replaced(self, texts: pa.Array) -> pa.Array:
        """Return each text with its matches replaced, null for null; errors are as in `search`."""
        return self._each(
            lambda some: pc.replace_substring_regex(some, self._found, self._instead), texts
        )


_REPEATS_NOTHING: Final = "a repetition of what may be empty, whose extent is asked for"


def _check_extent(text: str, root: PatternPart, group: int) -> None:
    """Refuse a group that Java may find elsewhere than RE2."""
    if not 0 <= group <= len(root.groups):
        raise bad_expression(f"the regular expression '{text}' has no group {group}")
    if root.repeats_nothing:
        raise unsupported(text, _REPEATS_NOTHING)
    if group in root.looped:
        raise unsupported(text, f"group {group} inside a repetition")
    if group in root.ending or (group == 0 and root.has_end and not root.is_ended):
        raise unsupported(text, f"$ or \\Z inside group {group}, which is asked for")


def _named(root: PatternPart, names: dict[int, str], *, has_ends: bool = False) -> str:
    """Return a pattern's text with these groups, by these names; "" is a group without a name."""

    def written(found: re.Match[str]) -> str:
        if not found[1]:
            return f"({TEXT_END})" if has_ends else TEXT_END
        name = names.get(int(found[1]))
        return "(?:" if name is None else f"(?P<{name}>" if name else "("

    return _NAMED.sub(written, root.text)


def _checked(text: str, found: str) -> str:
    """Return RE2's form of a pattern, which RE2 refuses if it is too large."""
    try:
        pc.match_substring_regex(pa.nulls(1, pa.string()), found)
    except pa.ArrowInvalid as error:
        raise unsupported(
            text, "more parts than RE2 takes, as often as they are repeated"
        ) from error
    return found


def _characters(texts: pa.Array, limit: int) -> pa.Array:
    """Return what Spark's split at the empty pattern does: characters, the last part with more."""
    offsets, content = text_buffers(texts.fill_null("") if texts.null_count else texts)
    begin, end = int(offsets[0]), int(offsets[-1])
    is_first = content[begin:end] & 0xC0 != 0x80
    # Where parts begin: the characters, and the texts that are empty, which are one part each.
    is_empty = offsets[1:] == offsets[:-1]
    begins = np.flatnonzero(is_first).astype(np.int32) + np.int32(begin)
    if is_empty.any():
        begins = np.sort(np.concatenate([begins, offsets[:-1][is_empty]]), kind="stable")
    passed = np.zeros(len(is_first) + 1, np.int32)
    np.cumsum(is_first, out=passed[1:])
    counts = np.diff(passed[offsets - begin]) + is_empty
    if limit > 0:
        ranks = np.arange(len(begins)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins, counts = begins[ranks < limit], np.minimum(counts, limit)
    ends = np.append(begins, np.int32(end))
    places = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    parts = text_array(ends, content, texts.type, None)
    nulls = texts.is_null() if texts.null_count else None
    return pa.ListArray.from_arrays(primitive_array(places), parts, mask=nulls)


def _parts(pattern: str, replacement: str, group_count: int) -> Iterator[str | int]:
    """Yield what a replacement is made of: texts, and numbers of groups."""
    place = 0
    while place < len(replacement):
        character = replacement[place]
        following = replacement[place + 1 : place + 2]
        if character not in "\\$":
            yield character
            place += 1
        elif not following:
            raise bad_expression(f"the replacement '{replacement}' ends in '{character}'")
        elif character == "\\":
            yield following
            place += 2
        elif following == "{":
            raise unsupported(pattern, "a replacement that has a group's name")
        elif not ("0" <= following <= "9") or int(following) > group_count:
            raise bad_expression(
                f"the replacement '{replacement}' has '${following}', and the regular expression "
                f"'{pattern}' has {group_count} groups; write \\$ for a dollar"
            )
        else:
            group, place = int(following), place + 2
            while "0" <= (digit := replacement[place : place + 1] or " ") <= "9":
                if group * 10 + int(digit) > group_count:
                    break
                group, place = group * 10 + int(digit), place + 1
            yield group


java_regex = lru_cache(maxsize=1024)(JavaRegex)
finder = lru_cache(maxsize=1024)(Finder)
splitter = lru_cache(maxsize=1024)(Splitter)
replacer = lru_cache(maxsize=1024)(Replacer)
