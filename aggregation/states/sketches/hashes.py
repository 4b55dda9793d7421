"""Hash rows for sketches, once for each dictionary value where there is a dictionary.

Null and the empty text hash to 0, which sketches leave out, as the DataSketches library leaves out
both values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from projseg.aggregation.states.folded_rows import valid_rows
from projseg.kernels.rows.sorting import plain_doubles
from projseg.kernels.sketches.value_hash import theta_hash_bytes, theta_hash_int64
from projseg.segment_format.dictionaries.dictionary import Dictionary
from projseg.segment_format.dictionaries.value_hashes import NULL_HASH, dictionary_hashes
from projseg.segment_format.encodings.text_encoding import text_parts
from projseg.segment_format.layout.logical_types import arrow_to_numbers, is_text
from projseg.segment_format.vectors.arrow_arrays import filled_values
from projseg.segment_format.vectors.vectors import Ids, Numbers, Vector

ValueHashes = NDArray[np.uint64]
ValueIds = NDArray[np.unsignedinteger[Any]] | None

_TABLE_SHARE_MIN: Final = 4  # rows for each value of a narrow type: hash all its values

_NULL: Final = np.uint64(NULL_HASH)


def hashes_of(vector: Vector) -> tuple[ValueIds, ValueHashes]:
    """Return (value ids, value hashes): row i has `hashes[value_ids[i]]`; no ids: `hashes[i]`."""
    return _hashes_of(vector, dictionary_hashes)


def theta_hashes_of(vector: Vector) -> tuple[ValueIds, ValueHashes]:
    """Return (value ids, theta hashes), as `hashes_of` does."""
    return _hashes_of(vector, _dictionary_theta_hashes)


def _dictionary_theta_hashes(dictionary: Dictionary) -> ValueHashes:
    return dictionary.memo(
        ("theta hashes",),
        lambda: _theta_hashes_of_values(dictionary.values),
        lambda hashes: hashes.nbytes,
    )


def _theta_hashes_of_values(values: pa.Array) -> ValueHashes:
    if is_text(values.type):
        return theta_hash_bytes(*text_parts(values))
    numbers, validity = arrow_to_numbers(values)
    if numbers.dtype.kind == "f":
        numbers = plain_doubles(numbers).view(np.int64)
    hashes = theta_hash_int64(numbers.astype(np.int64, copy=False))
    return hashes if validity is None else np.where(validity, hashes, _NULL)


def _hashes_of(
    vector: Vector, of_dictionary: Callable[[Dictionary], ValueHashes]
) -> tuple[ValueIds, ValueHashes]:
    if isinstance(vector, Ids):
        return vector.ids, _hashes_by_id(vector.dictionary, of_dictionary)
    if isinstance(vector, Numbers) and _is_dense(vector):
        domain = np.arange(np.iinfo(vector.values.dtype).max + 1, dtype=vector.values.dtype)
        _, hashes = _hashes_of(Numbers(domain, vector.type, vector.base), of_dictionary)
        if vector.validity is None:
            return vector.values, hashes
        none = np.uint32(len(domain))
        return np.where(vector.validity, vector.values, none), np.append(hashes, _NULL)
    hashes = _hashes_by_row(vector.to_arrow(), of_dictionary)
    if (validity := valid_rows(vector)) is not None:
        hashes = np.where(validity, hashes, _NULL)
    return None, hashes


def _is_dense(numbers: Numbers) -> bool:
    dtype = numbers.values.dtype
    if dtype not in (np.uint8, np.uint16):
        return False
    values_fit = numbers.base + int(np.iinfo(dtype).max) <= _largest(numbers.type)
    return values_fit and len(numbers) >= _TABLE_SHARE_MIN * (np.iinfo(dtype).max + 1)


def _largest(value_type: pa.DataType) -> int:
    """Return the largest physical integer of a fixed-width type."""
    if pa.types.is_boolean(value_type):
        return 1
    if pa.types.is_decimal(value_type):
        return int(10**value_type.precision) - 1
    return (1 << (int(value_type.bit_width) - 1)) - 1


def _hashes_by_id(
    dictionary: Dictionary, of_dictionary: Callable[[Dictionary], ValueHashes]
) -> ValueHashes:
    hashes = of_dictionary(dictionary)
    none_count = int(dictionary.has_null)  # the null, and the empty text right behind it
    if is_text(dictionary.type) and none_count < len(dictionary):
        (least,) = dictionary.values_of(np.array([none_count], np.uint32)).to_pylist()
        none_count += not least
    if not hashes[:none_count].any():
        return hashes
    return np.where(np.arange(len(hashes)) < none_count, _NULL, hashes)


def _hashes_by_row(
    values: pa.Array, of_dictionary: Callable[[Dictionary], ValueHashes]
) -> ValueHashes:
    hashes = of_dictionary(Dictionary(values))
    if not is_text(values.type):
        return hashes
    is_empty = filled_values(pc.binary_length(values), 0) == 0
    return np.where(is_empty, _NULL, hashes)
