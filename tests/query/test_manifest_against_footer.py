"""What a manifest or snapshot claims of a segment is compared with its footer when it is opened."""

import pytest
from forged_tables import Lie, Original
from using_tables import sound_table

import projseg
from projseg.cli import segment_report
from projseg.errors import CorruptTableError

# Fields of a segment entry, in their order (SPEC.md "Table", manifests).
ROWS, COLUMNS, PROJECTIONS, NOT_BUILT = 2, 8, 9, 10
OPENING = {"group_by": "channel", "aggregators": "count(*) AS n, min(big) AS b"}
STORED = {"group_by": "channel", "aggregators": "sum(big) AS b"}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    location = tmp_path_factory.mktemp("sound") / "t"
    sound_table(location, counts=(200,))
    return Original(location)


@pytest.fixture
def forged(original, tmp_path):
    def forge(*lies):
        original.forged(tmp_path / "forged", lies)
        return projseg.Table(tmp_path / "forged")

    return forge


def entry_place(original, *keys):
    (manifest,) = original.manifests
    return (manifest, "entries", 0, *keys)


def changed_entry(original, *keys, value):
    return Lie(entry_place(original, *keys), value)


def entry_of(original):
    return original.documents[original.manifests[0]]["entries"][0]


def test_a_table_forged_without_a_lie_is_sound(forged):
    table = forged()
    assert table.verify(deep=True) == []
    assert table.query(**OPENING).num_rows == 8


@pytest.mark.parametrize("rows", [199, 201, 2**32 - 1])
def test_rows_are_those_of_the_footer(original, forged, rows):
    table = forged(changed_entry(original, ROWS, value=rows))
    for query in (OPENING, {"limit": 3}, {"filter": "big > 0"}):
        with pytest.raises(CorruptTableError, match=f"rows: expected {rows}, found 200"):
            table.query(**query)


def test_a_count_from_metadata_opens_nothing_and_verify_finds_the_lie(original, forged):
    table = forged(changed_entry(original, ROWS, value=2**32 - 1))
    assert table.query(aggregators="count(*) AS n").to_pylist() == [{"n": 2**32 - 1}]
    assert any("rows: expected 4294967295, found 200" in f.problem for f in table.verify())


def test_rows_beyond_the_limits_of_a_segment_are_no_entry(original, forged):
    table = forged(changed_entry(original, ROWS, value=2**32))
    with pytest.raises(CorruptTableError, match="more than a segment has"):
        table.query(aggregators="count(*) AS n")


@pytest.mark.parametrize("column", ["big", "channel", "time", "amount", "day", "robot"])
def test_nan_is_no_value_of_other_types_than_floats(original, forged, tmp_path, column):
    query = {"aggregators": f"min({column}) AS a, max({column}) AS b"}
    original.forged(tmp_path / "sound", [])
    sound = projseg.Table(tmp_path / "sound").query(**query)
    table = forged(changed_entry(original, COLUMNS, column, 3, value=True))
    assert table.query(**query).equals(sound)
    assert table.explain(**query).segments.num_rows == 1
    assert any("whether a value is NaN" in found.problem for found in table.verify(deep=True))


@pytest.mark.parametrize("column", ["big", "channel", "time"])
def test_columns_are_those_of_the_footer(original, forged, column):
    columns = {name: zone for name, zone in entry_of(original)[COLUMNS].items() if name != column}
    table = forged(changed_entry(original, COLUMNS, value=columns))
    with pytest.raises(CorruptTableError, match="columns: expected"):
        table.query(**OPENING, context={"noProjections": True})


@pytest.mark.parametrize(
    ("name", "wrong"), [("amount", "bigint"), ("day", "timestamp"), ("tags", "array<bigint>")]
)
def test_types_are_those_of_the_footer(original, forged, name, wrong):
    columns = original.documents[original.snapshot]["properties"]["columns"]
    at = next(i for i, column in enumerate(columns) if column["name"] == name)
    table = forged(Lie((original.snapshot, "properties", "columns", at, "type"), wrong))
    with pytest.raises(CorruptTableError, match=f"type of column '{name}'"):
        table.query()


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda p: [p[1], p[0]], id="exchanged"),
        pytest.param(lambda p: p[:1], id="one is missing"),
        pytest.param(lambda p: [[*p[0][:2], 3, *p[0][3:]], p[1]], id="rows"),
        pytest.param(lambda p: [["robots", *p[0][1:]], ["hourly", *p[1][1:]]], id="names"),
        pytest.param(lambda p: [[p[0][0], *p[1][1:]], [p[1][0], *p[0][1:]]], id="hashes"),
    ],
)
def test_projections_are_those_of_the_footer(original, forged, value):
    projections = value(entry_of(original)[PROJECTIONS])
    table = forged(changed_entry(original, PROJECTIONS, value=projections))
    with pytest.raises(CorruptTableError, match="projections"):
        table.query(**OPENING, context={"noProjections": True})


def test_what_was_not_built_is_what_the_footer_says(original, forged):
    table = forged(changed_entry(original, NOT_BUILT, value=[]))
    with pytest.raises(CorruptTableError, match="projections not built"):
        table.query(**OPENING)


def test_a_hash_is_that_of_its_definition(original, forged):
    definitions = dict(original.documents[original.snapshot]["definitions"])
    first, second, *rest = definitions
    exchanged = {first: definitions[second], second: definitions[first]}
    lie = Lie((original.snapshot, "definitions"), {**definitions, **exchanged})
    with pytest.raises(CorruptTableError, match="whose definition has the hash"):
        forged(lie).query(**STORED)
    assert rest


def test_a_definition_that_is_missing_is_corruption(original, forged):
    lie = Lie((original.snapshot, "definitions"), {})
    with pytest.raises(CorruptTableError, match="which no definition has"):
        forged(lie).query(**STORED)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"name":' * 5_000, "{}", "null", '"x"', ""])
def test_a_definition_of_any_text_is_an_error_of_ours(original, forged, text):
    definitions = original.documents[original.snapshot]["definitions"]
    lie = Lie((original.snapshot, "definitions"), dict.fromkeys(definitions, text))
    with pytest.raises(CorruptTableError, match="definition cannot be read"):
        forged(lie).query(**STORED)


def test_a_projection_without_a_column_of_its_definition_is_not_read(original, forged):
    """A column that a projection lacks must not be taken for one that was added to the table."""
    (segment,) = original.parts
    tables = original.documents[segment]["tables"]
    at = next(i for i, table in enumerate(tables) if table["name"] == "hourly")
    columns = [column for column in tables[at]["columns"] if column["name"] != "channel"]
    order = [name for name in tables[at]["sort_order"] if name != "channel"]
    table = forged(
        Lie((segment, "tables", at, "columns"), columns),
        Lie((segment, "tables", at, "sort_order"), order),
    )
    with pytest.raises(CorruptTableError, match=r"projection 'hourly'.*columns"):
        table.query(**STORED, context={"useProjection": "hourly"})


@pytest.mark.parametrize(
    ("keys", "value", "problem"),
    [
        ((COLUMNS, "code", 2), 201, "201 nulls in 200 rows"),
        ((COLUMNS, "code", 5), 2**63 - 1, "more than a segment has"),
        ((COLUMNS, "big", 0), 10**6, "minimum 1000000 above the maximum"),
        ((COLUMNS, "channel", 1), "", "above the maximum ''"),
        ((5,), [5, 5], "an interval that ends before it starts"),
        ((6,), None, "one end of its time range only"),
        ((PROJECTIONS, 0, 2), 201, "more rows than it has itself"),
        ((PROJECTIONS, 0, 3), 2**63 - 1, "more than a segment has"),
        ((PROJECTIONS, 0, 4, "code"), 2**63 - 1, "more than a segment has"),
        ((PROJECTIONS, 1, 0), "hourly", "two projections of one name"),
        ((PROJECTIONS, 0, 0), "", "a projection without a name"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(original, forged, keys, value, problem):
    lies = [changed_entry(original, *keys, value=value)]
    if keys == (6,):
        lies.append(Lie((original.manifests[0], "min_time_us", 0), 2**63 - 1))
        lies.append(Lie((original.manifests[0], "max_time_us", 0), -(2**63)))
    with pytest.raises(CorruptTableError, match=problem):
        forged(*lies).query(aggregators="count(code) AS n")


def test_a_reason_that_steers_a_terminal_is_shown_as_text(original, forged):
    """Why a projection was not built is a stranger's text, which explain and inspect print."""
    (segment,) = original.parts
    reason = "\x1b]0;owned\x07" + "x" * 100_000
    name, digest, _ = entry_of(original)[NOT_BUILT][0]
    table = forged(
        changed_entry(original, NOT_BUILT, value=[[name, digest, reason]]),
        Lie((segment, "not_built", 0, "reason"), reason),
        Lie((segment, "writer"), reason),
    )
    (row,) = table.explain(**OPENING).segments.to_pylist()
    (told,) = [why for projection, why in row["rejected"] if projection == name]
    path = f"{table.location}/{segment}"
    shown = segment_report.describe_segment(*segment_report.opened(path), path)
    for text in (told, shown.writer, *(why for _, why in shown.not_built)):
        assert text.isprintable()
        assert len(text) < 3000
