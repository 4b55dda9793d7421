"""Random views of random tables: one answer with them, without them, and after each change."""

import collections

import pytest
from matching_tables import answer, atom, declaration, make_query, make_table, random_of, rows
from scale import tries

from projseg import Table
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT

TABLES = tries(60, 2)
STEPS = 3
QUERIES_A_STEP = 6


def select_of(declared):
    """Return a declaration as a SELECT, as views are defined by."""
    keys = [f"{key} AS g{place}" for place, key in enumerate(declared.keys)]
    calls = [f"{call} AS a{place}" for place, call in enumerate(declared.aggregates)]
    where = f" WHERE {declared.where}" if declared.where else ""
    numbers = ", ".join(str(place + 1) for place in range(len(keys)))
    by = f" GROUP BY {numbers}" if keys else ""
    return f"SELECT {', '.join(keys + calls)} FROM t{where}{by}"


def make_views(r, table):
    """Declare a few views, and return what they group."""
    made = []
    for number in range(r.randint(1, 4)):
        declared = declaration(r)
        options = {"chunk": r.choice([None, "hour", "day", "month"])}
        if r.random() < 0.2:
            options["refresh"] = "deferred"
        if r.random() < 0.2:
            options["interval"] = "2024-03-09T12:00/2024-03-11"
        try:
            table.create_view(f"v{number}", select_of(declared), **options)
        except ProjsegError:
            continue  # it is not legal, for example with two equal keys
        made.append(declared)
    return made


def refreshed(r, table):
    for name in table.views()["name"].to_pylist():
        table.view(name).refresh(full=r.random() < 0.3)


def appended_by_another(r, table):
    Table(table.location).append(rows(r, 30))
    table.refresh()


def appended_in_pieces(r, table):
    """Small parts are merged with groups that are still in memory, or are not any more."""
    for _ in range(r.randint(2, 5)):
        table.append(rows(r, r.choice([1, 20])))
        if r.random() < 0.2:
            KEPT.clear()


def restored(r, table):
    table.append(rows(r, 20))
    table.restore(table.version - 1)


CHANGES = [
    lambda r, table: table.append(rows(r, r.choice([1, 20, 80]))),
    appended_by_another,
    appended_in_pieces,
    lambda r, table: table.delete(atom(r)),
    lambda r, table: table.update({"n": "n + 1"}, filter=atom(r)),
    lambda r, table: table.overwrite(rows(r, r.choice([1, 40]))),
    lambda r, table: table.compact(),
    restored,
    refreshed,
]


@pytest.mark.parametrize("seed", range(TABLES))
def test_views_answer_as_rows_do(tmp_path, seed):
    r = random_of(seed)
    table, declared = make_table(r, str(tmp_path))
    views = make_views(r, table)
    used = collections.Counter()
    for step in range(STEPS):
        if step:
            r.choice(CHANGES)(r, table)
        for _ in range(QUERIES_A_STEP):
            query, context = make_query(r, views + declared)
            expected = answer(table, query, {**context, "noProjections": True})
            contexts = [{}, {"noViews": True}, {"forceViews": True}]
            contexts += [{"useView": name} for name in table.views()["name"].to_pylist()]
            for steering in contexts:
                found = answer(table, query, {**context, **steering})
                used[found != "PROJSEG_VIEW_NOT_USABLE"] += 1
                if found == "PROJSEG_VIEW_NOT_USABLE":
                    continue
                is_raised_by_rows_only = isinstance(expected, str) and isinstance(found, list)
                assert found == expected or is_raised_by_rows_only, (query, context, steering)
    assert used[True]
    for name in table.views()["name"].to_pylist():
        assert table.view(name).verify(deep=True) == []
