"""Take footers of segment files apart: their shapes, and what differs between files of one shape.

A footer is MessagePack. Those of a table's segments are alike but for whole numbers and byte
strings: positions, counts, checksums, page directories.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from projseg.errors import InvalidInputError
from projseg.kernels.runtime.kernel import kernel
from projseg.kernels.texts.text_bytes import read_only

_BAD, _NUMBER, _BYTES, _TEXT, _OTHER = range(5)
_MARK: Final = 0xC3  # plus the kind of a number it stands for it: no first byte that is kept
_BITS: Final = 8


def _tags() -> NDArray[np.int64]:
    """Return the kind of value, the bytes of its number and what that begins with, by first byte.

    The number of a byte string or of a text is its length. Numbers below 0, and floats, are no part
    of a footer.
    """
    tags = np.zeros((256, 3), np.int64)
    tags[:0x80, 0], tags[:0x80, 2] = _NUMBER, np.arange(0x80)
    tags[0x80:0xA0, 0] = tags[[0xC0, 0xC2, 0xC3], 0] = _OTHER
    tags[0xA0:0xC0, 0], tags[0xA0:0xC0, 2] = _TEXT, np.arange(0x20)
    for first, kind, sizes in (
        (0xC4, _BYTES, [1, 2, 4]),
        (0xCC, _NUMBER, [1, 2, 4, 8]),
        (0xD9, _TEXT, [1, 2, 4]),
        (0xDC, _OTHER, [2, 4, 2, 4]),
    ):
        tags[first : first + len(sizes), 0], tags[first : first + len(sizes), 1] = kind, sizes
    return tags


_TAGS: Final = _tags()


def split_footers(
    content: NDArray[np.uint8], starts: NDArray[np.int64]
) -> list[tuple[bytes, NDArray[np.int64]]]:
    """Return the shape of each footer, and its numbers: a list of (bytes, int64[k]).

    `starts` has where each footer begins, and where the last one ends. The shape is the footer
    without numbers and byte strings, and empty if it has anything that no footer has. Of a byte
    string, the numbers are its position in `content` and its length; a number of 64 bits may wrap
    around.
    """
    in_bounds = len(starts) > 0 and int(starts[0]) == 0 and int(starts[-1]) == len(content)
    if not in_bounds or (starts[1:] < starts[:-1]).any():
        raise InvalidInputError("PROJSEG_INTERNAL", "footers lie outside their content")
    shapes, numbers = np.empty(len(content), np.uint8), np.empty(len(content), np.int64)
    ends = np.empty((2, len(starts) - 1), np.int64)
    _split_footers(read_only(content), starts, _TAGS, shapes, numbers, ends[0], ends[1])
    each = zip(starts.tolist(), ends[0].tolist(), ends[1].tolist(), strict=False)
    return [(shapes[start:end].tobytes(), numbers[start:last]) for start, end, last in each]


@kernel
def _split_footers(
    content: NDArray[np.uint8],
    starts: NDArray[np.int64],
    tags: NDArray[np.int64],
    shapes: NDArray[np.uint8],
    numbers: NDArray[np.int64],
    shape_ends: NDArray[np.int64],
    number_ends: NDArray[np.int64],
) -> None:
    """Write the shape and the numbers of each footer to where it begins in `content`.

    Shapes: content, shapes, numbers [bytes]; starts [n + 1]; tags [256, 3];
    shape_ends, number_ends [n].
    Oracle: msgspec.msgpack.decode.
    """
    for footer in range(len(starts) - 1):
        at, end = starts[footer], starts[footer + 1]
        filled = count = at
        while at < end:
            first = at
            kind, size, begun = tags[content[first]]
            at += 1 + size
            if kind == _BAD or at > end:
                break
            value = np.uint64(begun)
            for place in range(first + 1, at):
                value = value << np.uint64(_BITS) | np.uint64(content[place])
            is_number = kind == _NUMBER
            if kind in (_BYTES, _TEXT):
                if value > np.uint64(end - at):
                    break
                numbers[count] = at
                at += int(value)
                is_number = kind == _BYTES
                count += is_number
            if is_number:
                numbers[count] = np.int64(value)
                shapes[filled] = _MARK + kind
                count += 1
                filled += 1
                continue
            for place in range(first, at):
                shapes[filled] = content[place]
                filled += 1
        is_whole = at == end
        shape_ends[footer] = filled if is_whole else starts[footer]
        number_ends[footer] = count if is_whole else starts[footer]
