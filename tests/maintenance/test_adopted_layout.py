"""Tables whose segments differ in granularity and order: adopted layouts, and what compaction cuts.

The oracle of every answer is DuckDB over the rows that were appended.
"""

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from life_tables import BY_CHANNEL, HOURLY, answers, expected, new_table, rows, stored_rows
from msgspec.structs import replace
from scale import tries

import projseg
from projseg.algebra.projection.parse import parse_projection
from projseg.errors import CommitConflictError
from projseg.maintenance.compact import Compaction, compact
from projseg.table_layer.column_changes import NO_CHANGES, ColumnChanges
from projseg.table_layer.commits.commit import commit
from projseg.table_layer.commits.rebase_declarations import Adopted, adopted_by
from projseg.table_layer.metadata.change import AdoptLayout, Append, ChangeColumns
from projseg.table_layer.renamed_columns import stored_declaration
from projseg.table_layer.storage.paths import new_write_id
from projseg.writer.table_writer import is_coarser, segment_granularity, write_segments


def adopt(base, **layout):
    layout = AdoptLayout(**{"definition": "d1", "definition_version": 1, **layout})
    change = ChangeColumns(NO_CHANGES, layout)
    return commit(base.storage, base, change, write_id=new_write_id(), operation="adopt layout")


def declared(table, spec):
    parsed = parse_projection(spec, table.schema, time_column="time")
    return stored_declaration(parsed, table.properties)


def open_anew(table):
    return projseg.Table(table.location)


def append_in(table, data, **layout):
    """Append rows in a layout of this one statement."""
    base, write_id = table.snapshot, new_write_id()
    entries = write_segments(
        data.to_batches(), replace(base.properties, **layout), base.storage, write_id=write_id
    )
    return commit(base.storage, base, Append(tuple(entries)), write_id=write_id, operation="append")


def test_rows_and_their_layout_are_one_commit(tmp_path):
    table = new_table(tmp_path / "t", segment_granularity="all")
    base, write_id = table.snapshot, new_write_id()
    layout = AdoptLayout("d1", 7, "hour", ("page",), 10, (declared(table, HOURLY),), {"a": "b"})
    entries = write_segments(
        rows(0).to_batches(),
        replace(base.properties, segment_granularity="hour", cluster_by=("page",)),
        base.storage,
        write_id=write_id,
    )
    change = Append(tuple(entries), layout=layout)
    made = commit(base.storage, base, change, write_id=write_id, operation="append")
    found = made.properties
    assert made.version == base.version + 1
    assert (found.segment_granularity, found.cluster_by) == ("hour", ("page",))
    assert (found.target_segment_rows, found.properties["a"]) == (10, "b")
    assert [projection.name for projection in found.projections] == ["hourly"]
    assert adopted_by(found) == Adopted("d1", 7)
    after = open_anew(table)
    after.append(rows(1))
    assert all(
        entry.interval[1] - entry.interval[0] == 3_600_000_000 for entry in after.snapshot.segments
    )
    assert after.verify(deep=True) == []


@pytest.mark.parametrize(
    ("definition", "version", "takes_over", "wins"),
    [
        ("d1", 4, False, False),
        ("d1", 5, False, True),
        ("d1", 6, False, True),
        ("d2", 9, False, False),
        ("d2", 1, True, True),
        ("d1", 1, True, True),
    ],
)
def test_neither_an_older_version_nor_another_definition_takes_a_layout_back(
    tmp_path, definition, version, takes_over, wins
):
    table = new_table(tmp_path / "t")
    first = adopt(table.snapshot, definition_version=5, segment_granularity="hour")
    second = adopt(
        table.snapshot,  # which does not know of the first
        definition=definition,
        definition_version=version,
        segment_granularity="month",
        takes_over=takes_over,
    )
    assert second.version == first.version + 1
    assert second.properties.segment_granularity == ("month" if wins else "hour")
    expected_adoption = Adopted(definition, version) if wins else Adopted("d1", 5)
    assert adopted_by(second.properties) == expected_adoption


def test_a_column_that_a_layout_sorts_by_and_others_renamed_is_a_conflict(tmp_path):
    table = new_table(tmp_path / "t")
    base = table.snapshot
    table.rename_column("page", "title")
    with pytest.raises(CommitConflictError, match="'page', by which"):
        adopt(base, cluster_by=("page",))
    assert open_anew(table).version == table.version


def test_a_projection_is_declared_in_place_of_that_of_its_name(tmp_path):
    table = new_table(tmp_path / "t", projections=[BY_CHANNEL, HOURLY])
    table.append(rows(0))
    other = {"name": "by_channel", "sql": "SELECT channel, max(added) AS most GROUP BY ALL"}
    adopt(table.snapshot, projections=(declared(table, other),))
    after = open_anew(table)
    assert sorted(p.name for p in after.properties.projections) == ["by_channel", "hourly"]
    after.append(rows(1))
    assert answers(after) == expected(pa.concat_tables([rows(0), rows(1)]))
    assert after.verify(deep=True) == []


def test_a_layout_may_sort_by_a_column_of_its_own_commit(tmp_path):
    table = new_table(tmp_path / "t")
    base = table.snapshot
    changes = ColumnChanges(add=(replace(base.properties.columns[1], name="city"),))
    change = ChangeColumns(changes, AdoptLayout("d1", 1, cluster_by=("city",)))
    made = commit(base.storage, base, change, write_id=new_write_id(), operation="adopt layout")
    assert made.properties.cluster_by == ("city",)


LAYOUTS = [
    {"segment_granularity": granularity, "cluster_by": cluster}
    for granularity in ("PT12H", "day", "week", "month", "all")
    for cluster in ((), ("channel",), ("page", "robot"))
]


@settings(max_examples=tries(3), deadline=None)
@given(st.data())
def test_segments_of_any_layouts_answer_alike_before_and_after_compaction(tmp_path_factory, data):
    days = st.integers(0, 40)
    steps = data.draw(
        st.lists(st.tuples(days, st.sampled_from(LAYOUTS), st.booleans()), min_size=2, max_size=5)
    )
    location = tmp_path_factory.mktemp("t") / "t"
    table = new_table(location, projections=[HOURLY, BY_CHANNEL], target_segment_rows=60)
    everything = []
    for number, (day, layout, is_adopted) in enumerate(steps):
        everything.append(rows(day, count=30, first=number * 30))
        if is_adopted:
            adopt(table.snapshot, definition_version=number, **layout)
            table.refresh()
            table.append(everything[-1])
        else:
            append_in(table, everything[-1], **layout)
            table.refresh()
        if number == 1:
            table.delete("robot")
    wanted = pa.concat_tables([part.filter(_is_human(part)) for part in everything[:2]])
    wanted = pa.concat_tables([wanted, *everything[2:]])
    before = stored_rows(table)
    assert answers(table) == answers(table, noProjections=True) == expected(wanted)
    for _ in range(2):
        table.compact()
    assert stored_rows(table) == before
    assert answers(table) == answers(table, noProjections=True) == expected(wanted)
    granularity = segment_granularity(table.properties)
    entries = list(table.snapshot.segments)
    assert not any(is_coarser(entry.interval, granularity) for entry in entries)
    assert table.verify(deep=True) == []


def _is_human(part):
    return pa.array([not robot for robot in part["robot"].to_pylist()])


def test_compaction_cuts_what_is_coarser_and_joins_what_is_finer(tmp_path):
    table = new_table(tmp_path / "t", segment_granularity="month", projections=[HOURLY])
    table.append(pa.concat_tables([rows(0), rows(1), rows(40)]))
    assert len(table.segments()) == 2
    adopt(table.snapshot, segment_granularity="day", cluster_by=("page",))
    table.refresh()
    planned = table.compact(dry_run=True)
    assert planned["segments"].to_pylist() == [1, 1]
    table.compact()
    days = [entry.interval for entry in table.snapshot.segments]
    assert [(end - start) // 86_400_000_000 for start, end in days] == [1, 1, 1]
    assert table.explain(aggregators="sum(added)", group_by="channel").sources == {"hourly": 3}
    adopt(table.snapshot, definition_version=2, segment_granularity="month")
    table.refresh()
    table.compact()
    assert [entry.row_count for entry in table.snapshot.segments] == [80, 40]
    assert len(table.compact(dry_run=True)) == 0
    assert table.verify(deep=True) == []


def test_a_cut_that_fails_leaves_no_file(tmp_path, monkeypatch):
    from projseg.maintenance import merged_segment

    table = new_table(tmp_path / "t", segment_granularity="month")
    table.append(pa.concat_tables([rows(0), rows(1), rows(2)]))
    adopt(table.snapshot, segment_granularity="day")
    table.refresh()
    before = sorted(path.name for path in (tmp_path / "t" / "data").iterdir())
    real, calls = merged_segment.write_sorted, itertools.count()

    def fails_third(*arguments, **options):
        if next(calls) == 2:
            raise MemoryError
        return real(*arguments, **options)

    monkeypatch.setattr(merged_segment, "write_sorted", fails_third)
    with pytest.raises(MemoryError):
        compact(table.snapshot, Compaction())
    assert sorted(path.name for path in (tmp_path / "t" / "data").iterdir()) == before
