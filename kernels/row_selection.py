"""Select rows: find those that match, fetch values at row ids, and texts at dictionary ids."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.grouping import UnsignedIds, require_ids_below
from projseg.kernels.runtime.kernel import Integers, Intrinsic, Narrow, Words, kernel, widened_ids
from projseg.memory.memory_pool import empty

# Comparing with so many ids, several rows at once, is faster than looking each row up.
_COMPARED_IDS_MAX: Final = 8
_BLOCK_ROWS: Final = 1 << 12
# One kernel for each width of value, whatever its type.
_WORDS: Final = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_COPIED: Final = 16  # bytes of text that are copied at once
_TEXT_BYTES_MAX: Final = (1 << 31) - 1  # what Arrow's 32-bit offsets reach


def allowed_rows(ids: UnsignedIds, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which rows have an id that is allowed, bool[n]; every id is below `len(allowed)`."""
    kept = np.flatnonzero(allowed)
    if len(kept) and len(kept) == kept[-1] - kept[0] + 1:
        return between(ids, int(kept[0]), int(kept[-1]))
    if len(kept) <= _COMPARED_IDS_MAX:
        ids = widened_ids(ids)
        mask = np.zeros(len(ids), np.bool_)
        _set_where_equal(mask, ids, kept.astype(ids.dtype))
    else:
        require_ids_below(ids, len(allowed))
        mask = empty(len(ids), np.bool_)
        _look_up(widened_ids(ids), allowed, mask)
    return mask


@kernel(interpretable=True)
def _set_where_equal(mask: NDArray[np.bool_], ids: Narrow, wanted: Narrow) -> None:
    """Compare a block with each id in turn.

    Shapes: mask, ids [n]; wanted [m].
    Oracle: tests/oracle/selecting.py::rows_with_allowed_id.
    """
    for start in range(0, len(ids), _BLOCK_ROWS):
        block, found = ids[start : start + _BLOCK_ROWS], mask[start : start + _BLOCK_ROWS]
        for one in wanted:
            for row in range(len(block)):
                found[row] |= block[row] == one


@kernel(interpretable=True)
def _look_up(ids: Narrow, allowed: NDArray[np.bool_], mask: NDArray[np.bool_]) -> None:
    """Look up whether each row's id is allowed.

    Shapes: ids, mask [n]; allowed [d].
    Oracle: tests/oracle/selecting.py::rows_with_allowed_id.
    """
    for row in range(len(ids)):
        mask[row] = allowed[ids[row]]


def with_rest(
    group_ids: UnsignedIds, mask: NDArray[np.bool_], rest: int
) -> NDArray[np.unsignedinteger[Any]]:
    """Return the group ids where `mask` is true, and `rest`, which fits their dtype, elsewhere."""
    if len(mask) != len(group_ids):
        raise InvalidInputError(
            "PROJSEG_LENGTH_MISMATCH", f"{len(group_ids)} ids, {len(mask)} rows"
        )
    divided = empty(len(group_ids), group_ids.dtype)
    _with_rest(group_ids, mask, group_ids.dtype.type(rest), divided)
    return divided


@kernel(interpretable=True)
def _with_rest(
    group_ids: Narrow, mask: NDArray[np.bool_], rest: np.unsignedinteger[Any], divided: Narrow
) -> None:
    """Give rows that do not count to the group `rest`; both are read first, so that none branches.

    Shapes: group_ids, mask, divided [n].
    Oracle: numpy.where.
    """
    for row in range(len(group_ids)):
        group, counts = group_ids[row], mask[row]
        divided[row] = group if counts else rest


def between(values: NDArray[Any], low: int, high: int) -> NDArray[np.bool_]:
    """Return where `low <= values <= high`, bool[n]; the bounds fit the values' dtype."""
    inside = empty(len(values), np.bool_)
    _between(values, values.dtype.type(low), values.dtype.type(high), inside)
    return inside


@kernel(interpretable=True)
def _between(
    values: Integers, low: np.integer[Any], high: np.integer[Any], inside: NDArray[np.bool_]
) -> None:
    """Compare each value with both bounds.

    Shapes: values, inside [n].
    Oracle: numpy.logical_and.
    """
    for row in range(len(values)):
        inside[row] = (low <= values[row]) & (values[row] <= high)


def gather(values: NDArray[Any], row_ids: NDArray[Any]) -> NDArray[Any]:
    """Return `values[row_ids]` of any fixed width, or of objects.

    Unsigned row ids of at most 32 bits are fastest.
    """
    is_word = values.dtype.itemsize in _WORDS and values.dtype != object
    is_narrow = row_ids.dtype.kind == "u" and row_ids.dtype.itemsize <= 4
    if not (is_narrow and is_word and values.flags.c_contiguous):
        return values.take(row_ids)
    require_ids_below(row_ids, len(values))
    gathered = empty(len(row_ids), values.dtype)
    word = _WORDS[values.dtype.itemsize]
    _gather(values.view(word), row_ids, gathered.view(word))
    return gathered


@kernel(interpretable=True)
def _gather(words: Words, row_ids: Narrow, gathered: Words) -> None:
    """Copy words of any type.

    Shapes: words [n]; row_ids, gathered [m].
    Oracle: numpy.take.
    """
    for row in range(len(row_ids)):
        gathered[row] = words[row_ids[row]]


def gather_text(
    offsets: NDArray[np.int32], content: NDArray[np.uint8], ids: UnsignedIds
) -> tuple[NDArray[np.int32], NDArray[np.uint8]] | None:
    """Return the texts of dictionary ids as Arrow holds them: (offsets int32[n + 1], content).

    None if the texts together pass 32-bit offsets.
    """
    require_ids_below(ids, len(offsets) - 1)
    if int(offsets[-1]) > len(content):
        raise InvalidInputError("PROJSEG_LENGTH_MISMATCH", f"texts end after {len(content)} bytes")
    ids = widened_ids(ids)
    gathered_offsets = empty(len(ids) + 1, np.int32)
    byte_count = int(_text_offsets(offsets, ids, gathered_offsets))
    if byte_count > _TEXT_BYTES_MAX:
        return None
    gathered = empty(byte_count + _COPIED, np.uint8)
    tail = np.zeros(2 * _COPIED, np.uint8)  # the content's end, long enough to copy from
    last = content[-_COPIED:]
    tail[: len(last)] = last
    _gather_text(offsets, content, tail, ids, gathered_offsets, gathered)
    return gathered_offsets, gathered[:byte_count]


@kernel(interpretable=True)
def _text_offsets(
    offsets: NDArray[np.int32], ids: Narrow, gathered_offsets: NDArray[np.int32]
) -> Any:
    """Add up lengths, until they pass 32-bit offsets.

    Shapes: offsets [d + 1]; ids [n]; gathered_offsets [n + 1].
    Oracle: tests/oracle/selecting.py::gather_text.
    """
    end = np.int64(0)
    gathered_offsets[0] = 0
    for row in range(len(ids)):
        text = np.int64(ids[row])
        end += np.int64(offsets[text + 1]) - np.int64(offsets[text])
        if end > _TEXT_BYTES_MAX:
            return end
        gathered_offsets[row + 1] = end
    return end


@kernel(interpretable=True)
def _gather_text(
    offsets: NDArray[np.int32],
    content: NDArray[np.uint8],
    tail: NDArray[np.uint8],
    ids: Narrow,
    gathered_offsets: NDArray[np.int32],
    gathered: NDArray[np.uint8],
) -> None:
    """Copy whole words beyond the end of each text; the next text overwrites what is too much.

    Shapes: offsets [d + 1]; content [bytes]; tail [tail bytes]; ids [n]; gathered_offsets [n + 1];
    gathered [gathered bytes].
    Oracle: tests/oracle/selecting.py::gather_text.
    """
    tail_start = np.int64(max(0, len(content) - _COPIED))
    for row in range(len(ids)):
        text = np.int64(ids[row])
        start, end = np.int64(offsets[text]), np.int64(offsets[text + 1])
        target = np.int64(gathered_offsets[row])
        while start < end:
            if start < tail_start:
                _copy_16_bytes(content, start, gathered, target)
            else:
                _copy_16_bytes(tail, start - tail_start, gathered, target)
            start += _COPIED
            target += _COPIED


def _copy_slice(source: Any, start: Any, target: Any, at: Any) -> None:
    """Copy source[start:start + 16] to target[at:at + 16]; neither is checked."""
    target[at : at + _COPIED] = source[start : start + _COPIED]


def _copy_word(typing_context: Any, source: Any, start: Any, target: Any, at: Any) -> Any:
    """Do as `_copy_slice` in compiled code, as one load and one store."""
    # Imported here, because this runs only where Numba compiles.
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.VectorType(ir.IntType(8), _COPIED).as_pointer()

        def place(array: int, position: int) -> Any:
            view = context.make_array(signature.args[array])(context, builder, arguments[array])
            return builder.bitcast(builder.gep(view.data, [arguments[position]]), word)

        builder.store(builder.load(place(0, 1), align=1), place(2, 3), align=1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), generate


_copy_16_bytes: Final = Intrinsic(_copy_slice, _copy_word)
