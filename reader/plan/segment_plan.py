"""How one segment, or a part of a wider source, is read for a query."""

from __future__ import annotations

import msgspec

from projseg.algebra.planning.source_plan import SourceChoice
from projseg.reader.plan.version_facts import CoveredRows
from projseg.table_layer.metadata.segment_entry import SegmentEntry


class SegmentPlan(msgspec.Struct, frozen=True, gc=False):
    """One segment, or part of a wider source, that a query must read, and how.

    `covered` has the rows that a part stands for, on request.
    """

    entry: SegmentEntry
    choice: SourceChoice
    covered: CoveredRows | None = None
