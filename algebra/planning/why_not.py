"""Why a source does not answer for a segment: codes and details that `explain` shows."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ReasonCode(StrEnum):
    """Why a source does not answer for a segment."""

    NOT_IN_SEGMENT = "NOT_IN_SEGMENT"
    DISABLED = "DISABLED"
    EXCLUDED = "EXCLUDED"
    MISSING_GROUPING_COLUMN = "MISSING_GROUPING_COLUMN"
    MISSING_VIRTUAL_COLUMN = "MISSING_VIRTUAL_COLUMN"
    GRANULARITY_TOO_COARSE = "GRANULARITY_TOO_COARSE"
    TIME_ZONE = "TIME_ZONE"
    TIME_ZONE_RULES = "TIME_ZONE_RULES"
    UNALIGNED_INTERVAL = "UNALIGNED_INTERVAL"
    FILTER_NOT_IMPLIED = "FILTER_NOT_IMPLIED"
    FILTER_COLUMN_NOT_STORED = "FILTER_COLUMN_NOT_STORED"
    AGGREGATOR_NOT_STORED = "AGGREGATOR_NOT_STORED"
    DECLARED_TYPE = "DECLARED_TYPE"
    ROW_SCAN = "ROW_SCAN"
    ROWS_DELETED = "ROWS_DELETED"
    COSTLIER = "COSTLIER"
    VIEW_DISABLED = "VIEW_DISABLED"
    VIEW_EMPTY = "VIEW_EMPTY"
    VIEW_BROKEN = "VIEW_BROKEN"
    OTHER_SELECT = "OTHER_SELECT"
    NOT_COVERED = "NOT_COVERED"
    DIMENSION_CHANGED = "DIMENSION_CHANGED"
    JOIN_NOT_STORED = "JOIN_NOT_STORED"
    NOT_A_STAR = "NOT_A_STAR"
    KEY_NOT_UNIQUE = "KEY_NOT_UNIQUE"
    OTHER_VIEW_CHOSEN = "OTHER_VIEW_CHOSEN"
    NOT_TRIED = "NOT_TRIED"


class Reason(msgspec.Struct, frozen=True):
    """A code and its detail; `explain` shows the `str()` of it."""

    code: ReasonCode
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.code} {self.detail}".rstrip()
