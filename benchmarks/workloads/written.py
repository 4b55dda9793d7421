"""The workloads whose queries and projections stand in files beside this module."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from projseg.algebra.expressions.dialect import split_list
from projseg.benchmarks import generator
from projseg.benchmarks.workloads import lineitem_rows
from projseg.benchmarks.workloads.question import Question, Rollup, Workload

_LISTS: Final = ("group_by", "aggregators", "columns", "order_by")


def _read(name: str, schema: pa.Schema) -> Workload:
    """Read a workload's file; a name in braces stands for one of its texts."""
    text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
    file = tomllib.loads(text)
    texts = {"all": ", ".join(schema.names), **file.get("texts", {})}

    def parts(written: dict[str, Any]) -> dict[str, Any]:
        found = {key: _part(key, value, texts) for key, value in written.items()}
        if "interval" in found:
            found["interval"] = tuple(found["interval"].split("/"))
        return found

    def rollups(section: str) -> tuple[Rollup, ...]:
        return tuple(Rollup(one, **parts(p)) for one, p in file.get(section, {}).items())

    return Workload(
        file["table"],
        schema,
        file["time_column"],
        rollups("projections"),
        tuple(Question(one, **parts(p), table=file["table"]) for one, p in file["queries"].items()),
        file.get("granularity"),
        rollups("tempting"),
    )


def _part(key: str, value: Any, texts: dict[str, str]) -> Any:
    filled = value.format_map(texts) if isinstance(value, str) else value
    return tuple(split_list(filled)) if key in _LISTS else filled


EDITS: Final = _read("edits", generator.SCHEMA)
HOURLY_EDITS: Final = _read("hourly_edits", generator.SCHEMA)
LINEITEM: Final = _read("lineitem", lineitem_rows.SCHEMA)
