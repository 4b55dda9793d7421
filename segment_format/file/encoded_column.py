"""All bytes of a column but for their place in the file, so that any thread can make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from projseg.segment_format.indexes.bitmap_writer import IndexBlock, index_blocks
from projseg.segment_format.layout.footer import Role
from projseg.segment_format.pages.column_writer import PackedPage, packed_pages, vector_pages
from projseg.segment_format.vectors.vectors import Ids, Vector


class EncodedColumn(NamedTuple):
    """The pages of a column, and the blocks of its bitmap index if it has one."""

    pages: Sequence[PackedPage]
    index_blocks: Sequence[IndexBlock]


def encode_column(vector: Vector, role: Role) -> EncodedColumn:
    """Encode and compress a column of a table.

    Raises
    ------
    LimitExceededError
        If a value or a page is too large.
    """
    pages = [*packed_pages(vector_pages(vector))]
    if not isinstance(vector, Ids) or role == "state":
        return EncodedColumn(pages, ())
    bytes_max = max(sum(len(page.stored) for page in pages), len(vector) // 8)
    return EncodedColumn(pages, index_blocks(vector.ids, len(vector.dictionary), bytes_max))
