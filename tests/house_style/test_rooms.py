"""Rooms: folders that can be overlooked, one direction, and lines within their budget."""

import tomllib
from collections import defaultdict
from itertools import combinations
from pathlib import Path

from lines import BUDGETS, lines_by_room
from test_layers import ROOT, imported, is_module, module_name, modules

MODULES_MAX = 30
CROWDED: dict[str, int] = {}
SMALL = 60
# Small modules that stand apart though at most one module imports them, and why.
SEAMS = {
    "projseg.benchmarks.tpc_tables": "a Python with another DuckDB runs it by its place",
    "projseg.catalog.store.migrations.env": "alembic runs it by its name",
    "projseg.catalog.store.migrations.versions.access_second": "alembic runs it by its place",
    "projseg.catalog.store.migrations.versions.replies_third": "alembic runs it by its place",
    "projseg.catalog.store.migrations.versions.status_fourth": "alembic runs it by its place",
    "projseg.catalog.store.open_store": "the seam where other packages offer stores",
    "projseg.memory.tracing": "the seam to OpenTelemetry, which nothing else imports",
    "projseg.__main__": "Python runs it by this name",
}


def room_of(name):
    return name.removeprefix("projseg.").rpartition(".")[0]


def test_a_folder_holds_few_modules():
    rooms = defaultdict(int)
    for _, path in modules():
        rooms[str(path.parent.relative_to(ROOT))] += path.name != "__init__.py"
    assert {room: n for room, n in rooms.items() if n > MODULES_MAX} == CROWDED


def test_a_small_module_has_several_importers():
    """What is always read together stands together, unless it is a seam."""
    importers = defaultdict(set)
    for _, path in modules():
        for name in imported(path):
            importers[name].add(path)
    alone = {
        module_name(path)
        for _, path in modules()
        if path.name != "__init__.py"
        and len(path.read_text().splitlines()) < SMALL
        and len(importers[module_name(path)] - {path}) < 2
    }
    assert alone == {*SEAMS}


def test_rooms_beside_each_other_import_one_way():
    arrows = {
        (room_of(name), room_of(other))
        for name, other in (
            (module_name(path), other) for _, path in modules() for other in imported(path)
        )
        if is_module(other)
    }
    both = {
        (a, b)
        for a, b in combinations(sorted({room for arrow in arrows for room in arrow}), 2)
        if {(a, b), (b, a)} <= arrows and not b.startswith(f"{a}.") and a and b
    }
    assert both == set()


def test_lines_stay_within_their_budget():
    """Who passes a budget raises it in the same commit, and says why in its body."""
    budgets = tomllib.loads(Path(BUDGETS).read_text())
    lines = lines_by_room()
    assert set(budgets) == set(lines)
    assert {room: n for room, n in lines.items() if n > budgets[room]} == {}
