"""What no table, projection, index or view can mean is refused where it is said, and clearly."""

from __future__ import annotations

import pyarrow as pa
import pytest

import projseg
from projseg.catalog.spec.spec_rules import checked
from projseg.catalog.spec.table_spec import TableSpec
from projseg.errors import InvalidInputError
from projseg.spark_engine.warehouse import set_properties

SCHEMA = {"c": "string", "n": "bigint"}
COUNT = "SELECT c, count(*) AS r FROM t GROUP BY c"


@pytest.fixture
def table(tmp_path):
    return projseg.Table.create(
        tmp_path / "t",
        SCHEMA,
        data={"c": ["x"], "n": [1]},
        projections=[projseg.Projection("p", ["c"], ["count(*) AS r"])],
        indexes=[projseg.Index("i", "c")],
    )


def _refused(code, words, call):
    with pytest.raises(InvalidInputError, match=words) as caught:
        call()
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"autoCompact": "yes"}, "autoCompact is 'yes'; it takes 'true' or 'false'"),
        ({"compactMinSegments": "1"}, "compactMinSegments is '1'; it takes a whole number from 2"),
        ({"compactMinSegments": "³"}, "compactMinSegments is '³'"),
        ({"maxDeletedRatio": "2"}, "maxDeletedRatio is '2'; it takes a number from 0 to 1"),
        ({"maxDeletedRatio": "nan"}, "maxDeletedRatio is 'nan'"),
        ({"autocompact": "true"}, "'autocompact' has no effect; write it 'autoCompact'"),
        ({"projection.p.retain": "soon"}, "retain 'soon' .* such as '90 days'"),
        ({"projection.p.maxRowRatio": "-1"}, "maxRowRatio -1.0 .* is not a number above 0"),
        ({"projection.p.build": "later"}, "build 'later' .* is not 'immediate' or 'deferred'"),
    ],
)
def test_properties_are_checked_when_they_are_set(table, tmp_path, properties, words):
    new = tmp_path / "new"
    _refused(
        "PROJSEG_BAD_OPTION",
        words,
        lambda: projseg.Table.create(new, SCHEMA, properties=properties),
    )
    assert not new.exists()
    _refused("PROJSEG_BAD_OPTION", words, lambda: set_properties(table, properties))
    assert projseg.Table(table.location).version == table.version
    spec = TableSpec.of({"properties": {"tableProperties": properties}})
    _refused("PROJSEG_BAD_SPEC", f"tableProperties.*{words}", lambda: checked(spec))


@pytest.mark.parametrize("properties", [{"a": 1}, {1: "a"}, {"a": None}, {"autoCompact": True}])
def test_properties_are_texts(tmp_path, properties):
    words = "of type (int|NoneType|bool); names and values of properties are texts"
    _refused(
        "PROJSEG_BAD_OPTION",
        words,
        lambda: projseg.Table.create(tmp_path / "t", SCHEMA, properties=properties),
    )


def test_what_an_earlier_release_stored_is_read_and_told_when_it_is_used(table, monkeypatch):
    monkeypatch.setattr("projseg.table_layer.commits.rebase.check_set", lambda _: None)
    set_properties(table, {"maxDeletedRatio": "2"})
    old = projseg.Table(table.location)
    old.append({"c": ["y", "z"], "n": [2, 3]})
    assert old.query(aggregators="count(*) AS n").to_pylist() == [{"n": 3}]
    _refused("PROJSEG_BAD_OPTION", "maxDeletedRatio is '2'", lambda: old.delete("n = 2"))


LIMITED = [
    ("varchar(3)", "varchar"),
    ("CHAR (2)", "CHAR"),
    ("array<varchar(3)>", "varchar"),
    ("binary(3)", "binary"),
    ("timestamp(3)", "timestamp"),
    ("string collate UTF8_LCASE", "collate UTF8_LCASE"),
    ("struct<a:int not null>", "not null"),
    ("int NOT NULL", "NOT NULL"),
    ("int default 3", "default 3"),
]


@pytest.mark.parametrize(("type_", "found"), LIMITED)
def test_types_with_limits_that_are_not_stored(table, tmp_path, type_, found):
    words = f"has {found}.* and projseg stores neither limits"
    for call in (
        lambda: projseg.Table.create(tmp_path / "new", {"c": type_}),
        lambda: table.add_column("z", type_),
        lambda: table.widen_column("n", type_),
    ):
        _refused("PROJSEG_BAD_TYPE_NAME", words, call)
    spec = TableSpec.of({"columns": [{"name": "c", "sqlType": type_}]})
    _refused("PROJSEG_BAD_SPEC", words, lambda: checked(spec))


def test_types_that_only_look_limited(table):
    for n, type_ in enumerate(
        ["struct<`not null`:int>", "struct<default:int>", "dec(3)", "varchar"]
    ):
        table.add_column(f"z{n}", type_)


def test_a_cast_to_another_collation_is_refused(table):
    text = "SELECT count(*) AS r FROM t WHERE CAST(c AS STRING COLLATE UTF8_LCASE) = 'X'"
    _refused("PROJSEG_BAD_EXPRESSION", "COLLATE", lambda: table.sql(text))


@pytest.mark.parametrize(
    "type_",
    ["struct<a:int,a:int>", "struct<a:int,A:string>", "array<map<int,struct<b:int,a:int,A:int>>>"],
)
def test_fields_of_a_struct_differ_in_more_than_case(table, tmp_path, type_):
    words = "field '[aA]' was declared twice .*differ in more than case"
    typed = projseg.Table.create(
        tmp_path / "twin", {"c": type_.replace("A", "z").replace("a:int,a", "a:int,z")}
    )
    arrow = pa.schema([("c", pa.struct([("a", pa.int32()), ("A", pa.int32())]))])
    for call in (
        lambda: projseg.Table.create(tmp_path / "new", {"c": type_}),
        lambda: projseg.Table.create(tmp_path / "new", arrow),
        lambda: table.add_column("z", type_),
    ):
        _refused("PROJSEG_DUPLICATE_NAME", words, call)
    spec = TableSpec.of({"columns": [{"name": "c", "sqlType": type_}]})
    _refused("PROJSEG_BAD_SPEC", words, lambda: checked(spec))
    assert len(typed.schema) == 1


NAMES = ["a/../b", "..", ".", "a/b", "a\\b", "a\nb", "", " a", "a\u202eb", "x" * 300, 3]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_read_as_paths_or_cannot_be_seen(table, tmp_path, name):
    projection = projseg.Projection(name, ["c"], ["count(*) AS r"])
    table.create_view("v", COUNT)
    codes = {"PROJSEG_BAD_NAME", "PROJSEG_BAD_PROJECTION"}  # a projection without a name
    for call in (
        lambda: table.create_view(name, "SELECT n, count(*) AS r FROM t GROUP BY n"),
        lambda: table.view("v").rename(name),
        lambda: table.add_index(projseg.Index(name, "n")),
        lambda: table.add_projection(projection),
        lambda: table.tag(name),
        lambda: projseg.Table.create(tmp_path / "a", SCHEMA, projections=[projection]),
        lambda: projseg.Table.create(tmp_path / "b", SCHEMA, indexes=[projseg.Index(name, "n")]),
    ):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert caught.value.code in codes


def test_usual_names_stay():
    from projseg.segment_format.format_limits import check_new_name

    for name in ("by hour", "größe", "a.b", "v-1", "sum(added)", "日本"):
        check_new_name("view", name)


def test_true_is_no_number(table, tmp_path):
    projection = projseg.Projection("q", ["n"], ["count(*) AS r"])
    for call in (
        lambda: projseg.Table(table.location, version=True),
        lambda: table.restore(True),
        lambda: table.tag("x", True),
        lambda: table.compact(target_segment_rows=True),
        lambda: projseg.Table.create(tmp_path / "new", SCHEMA, target_segment_rows=True),
        lambda: table.vacuum(True, force=True),
        lambda: table.erase("n = 1", retention_hours=True),
        lambda: table.add_projection(projection, max_row_ratio=True),
        lambda: table.add_index(projseg.Index("j", "n"), max_bytes_ratio=True),
        lambda: table.query("c", limit=True),
        lambda: table.query("c", context={"threads": True}),
        lambda: table.query("c", context={"maxStaleness": True}),
        lambda: projseg.QueryPool(table, workers=True),
        lambda: projseg.QueryPool(table, threads=True),
    ):
        with pytest.raises(InvalidInputError, match="True"):
            call()


def test_names_in_a_context_are_of_the_table(table):
    for key, code in (
        ("excludeProjections", "PROJSEG_UNKNOWN_PROJECTION"),
        ("excludeIndexes", "PROJSEG_UNKNOWN_INDEX"),
        ("excludeViews", "PROJSEG_UNKNOWN_VIEW"),
    ):
        context = {key: ["nope"]}
        _refused(code, "nope", lambda: table.query("c", context=context))  # noqa: B023
        _refused(code, "nope", lambda: table.explain("c", context=context))  # noqa: B023
    table.create_view("v", COUNT)
    context = {"excludeIndexes": ["nope"]}
    _refused("PROJSEG_UNKNOWN_INDEX", "indexes are i", lambda: table.query("c", context=context))


def test_an_order_of_rows_names_each_column_once(tmp_path):
    for given, code in ((["n", "n"], "PROJSEG_DUPLICATE_NAME"), ("n", "PROJSEG_BAD_OPTION")):
        _refused(
            code,
            "clusterBy",
            lambda: projseg.Table.create(tmp_path / "t", SCHEMA, cluster_by=given),  # noqa: B023
        )


def test_rows_without_columns_are_rows_of_nulls(tmp_path):
    for place, rows in enumerate(([{}, {}], iter([{}, {}]), pa.table({"z": [1, 2]}).select([]))):
        table = projseg.Table.create(tmp_path / str(place), SCHEMA)
        assert table.append(rows).rows == 2
        assert table.scan().read_all().to_pylist() == [{"c": None, "n": None}] * 2
        _refused("PROJSEG_UNKNOWN_COLUMN", "key", lambda: table.merge([{}], on=["n"]))  # noqa: B023
    timed = projseg.Table.create(tmp_path / "timed", {"t": "timestamp"}, time_column="t")
    _refused("PROJSEG_NULL_TIME", "time column 't' is null in 1 of 1", lambda: timed.append([{}]))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"properties": "refresh"}, "PROJSEG_BAD_VIEW"),
        ({"cluster_by": 5}, "PROJSEG_BAD_ARGUMENT"),
        ({"cluster_by": [object()]}, "PROJSEG_BAD_VIEW"),
        ({"tables": {"d": "a text"}}, "PROJSEG_BAD_ARGUMENT"),
    ],
)
def test_arguments_of_a_view_that_have_another_form_are_refused(tmp_path, given, code):
    table = projseg.Table.create(tmp_path / "t", data={"n": [1]})
    with pytest.raises(InvalidInputError, match=code):
        table.create_view("v", "SELECT n, count(*) AS r FROM t GROUP BY n", **given)
    assert len(table.views()) == 0
