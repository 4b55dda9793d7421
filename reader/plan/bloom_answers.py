"""Ask Bloom files about keys: which segments of a band may hold the keys of a condition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from projseg.algebra.proofs.index_keys import AllOf, Needed, OneOf, fewer_keys
from projseg.kernels.bloom_blocks import key_blocks, key_masks, may_hold
from projseg.kernels.sorting import distinct
from projseg.memory.cache import KEPT
from projseg.segment_format.dictionary_pages import array_hashes
from projseg.segment_format.indexes.bloom_file import Band, Blocks, BloomFile
from projseg.table_layer.metadata.segment_entry import BloomReference
from projseg.table_layer.storage.storage_contract import ByteRange, Storage

COSTLIER_SHARE: Final = 0.25
"""Of the segments' bytes, what filters may take to be read."""
FEWEST_SEGMENTS: Final = 2
"""An index is asked about no fewer."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BandFilters:
    """One band of a listed file, and where its segments stand in the version: -1 for none."""

    reference: BloomReference
    file: BloomFile
    band: Band
    positions: NDArray[np.int64]


def key_hashes(keys: OneOf) -> NDArray[np.uint64]:
    """Return the value hash of each key: uint64[k]."""
    if not keys.values:
        return np.empty(0, np.uint64)
    return array_hashes(pa.array([one.value for one in keys.values], keys.values[0].type))


def _every_hash(needed: Needed) -> NDArray[np.uint64]:
    if isinstance(needed, OneOf):
        return distinct(key_hashes(needed))
    return distinct(np.concatenate([_every_hash(part) for part in needed.parts]))


def affordable_keys(needed: Needed, bands: Sequence[Band], byte_count: float) -> tuple[Needed, int]:
    """Return as many keys as can be read within `byte_count` bytes, and their bytes."""
    while True:
        hashes, fewer = _every_hash(needed), fewer_keys(needed)
        found = sum(band.page(page)[1] for band in bands for page in _pages(band, hashes))
        if found <= byte_count or fewer == needed:
            return needed, found
        needed = fewer


def _pages(band: Band, hashes: NDArray[np.uint64]) -> list[int]:
    """Return the pages of a band that hold the rows of keys."""
    found: list[int] = distinct(key_blocks(hashes, band.blocks) // band.page_rows).tolist()
    return found


def holders_of(storage: Storage, filters: BandFilters, needed: Needed) -> Mask:
    """Return which segments of a band may hold the keys that are needed: bool[segments].

    Raises ProjsegError or OSError if a page cannot be read.
    """
    band = filters.band
    pages = _read_pages(storage, filters, _pages(band, _every_hash(needed)))

    def holders(needed: Needed) -> Mask:
        found = np.zeros(band.segment_count, np.bool_)
        if isinstance(needed, OneOf):
            hashes = key_hashes(needed)
            rows, masks = key_blocks(hashes, band.blocks).tolist(), key_masks(hashes)
            for row, mask in zip(rows, masks, strict=True):
                found |= may_hold(pages[row // band.page_rows][row % band.page_rows], mask)
            return found
        combine = np.logical_and if isinstance(needed, AllOf) else np.logical_or
        combined: Mask = combine.reduce([holders(part) for part in needed.parts])
        return combined

    return holders(needed)


def _read_pages(
    storage: Storage, filters: BandFilters, numbers: Sequence[int]
) -> dict[int, Blocks]:
    name, band = filters.reference.name, filters.band
    keys = {n: ("bloom page", storage.location, name, band.blocks, n) for n in numbers}
    found = {number: KEPT.get(key) for number, key in keys.items()}
    missing = [number for number, page in found.items() if page is None]
    if missing:
        ranges = [ByteRange(*band.page(number)) for number in missing]
        for number, content in zip(missing, storage.read_ranges(name, ranges), strict=True):
            page = filters.file.rows(band, number, content)
            KEPT.put(keys[number], page, len(content))
            found[number] = page
    return {number: page for number, page in found.items() if page is not None}
