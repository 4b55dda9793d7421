"""Every maximum of the table's metadata, with its reason. SPEC.md "Table", limits.

A table has as many columns and projections as a segment has, and names of the same length: more
declared projections than a segment embeds would be lost in silence.
"""

from __future__ import annotations

from typing import Final

from projseg.segment_format.format_limits import COLUMNS_MAX as COLUMNS_MAX
from projseg.segment_format.format_limits import NAME_BYTES_MAX as NAME_BYTES_MAX
from projseg.segment_format.format_limits import PROJECTIONS_MAX as PROJECTIONS_MAX

METADATA_BYTES_MAX: Final = 256 * 2**20
"""Bytes of one snapshot or manifest: what a planner may be made to hold for one file."""

METADATA_DEPTH_MAX: Final = 16
"""Levels of arrays and objects in one snapshot or manifest: they have seven."""

MANIFEST_BYTES_MAX: Final = 32 * 2**20
"""Bytes at which a writer cuts a manifest in two: a reader loads one in tens of milliseconds."""

MANIFEST_SEGMENTS_MAX: Final = 4_096
"""Segments of one written manifest: the unit of pruning without opening a manifest."""

SMALL_MANIFEST_SEGMENTS: Final = 1_024
"""A manifest below this is merged with others of its kind."""

SMALL_MANIFESTS_MAX: Final = 32
"""Small manifests a snapshot may list before a commit merges them."""

COMMIT_TEXT_BYTES_MAX: Final = 65_536
"""UTF-8 bytes of one text that a commit keeps for the history: each version repeats none of it."""

COMMENT_BYTES_MAX: Final = 8_192
"""UTF-8 bytes of a comment or a description, of whatever it is: lists show them whole."""

PROPERTY_BYTES_MAX: Final = 262_144
"""UTF-8 bytes of a property and its name: one may state a column of very many fields."""

PROPERTIES_BYTES_MAX: Final = 4_194_304
"""UTF-8 bytes of all properties of a table and their names: each version repeats them."""

COMMIT_TRIES_MAX: Final = 20
"""Versions one commit tries to publish before it reports a conflict."""

REMOTE_COMMIT_TRIES_MAX: Final = 200
"""The same in an object store, where writers that lose are not given a turn."""

TAGS_MAX: Final = 1_000
"""Tags of one table: each version repeats them."""

TAG_BYTES_MAX: Final = 128
"""Bytes of a tag's name."""

INDEXES_MAX: Final = 64
"""Indexes of one table: each segment written has a filter of every one."""

INDEX_COLUMNS_MAX: Final = 8
"""Columns of one index."""

BLOOM_FILES_MAX: Final = 4_096
"""Bloom files that a snapshot lists: each version repeats them."""

SMALL_BLOOM_SEGMENTS: Final = 1_024
"""A Bloom file of fewer segments is merged with others of its kind."""

SMALL_BLOOM_FILES_MAX: Final = 32
"""Small Bloom files of one column that a table may list before they are gathered."""

BOUND_BYTES_MAX: Final = 64
"""UTF-8 bytes of a string bound kept in a manifest; longer bounds are cut and marked inexact."""
