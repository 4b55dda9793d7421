"""What a table refuses to be declared as or to do, before anything is written."""

import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError
from projseg.segment_format.format_limits import PROJECTIONS_MAX

ROWS = pa.table({"channel": ["a", "b", "a"], "added": [1, 2, 3]})


def total(column="added"):
    return f"SELECT sum({column}) AS total GROUP BY ALL"


def declared(count):
    return [{"name": f"p{n}", "sql": total(f"added + {n}")} for n in range(count)]


def test_every_projection_that_may_be_declared_is_built(tmp_path):
    most = declared(PROJECTIONS_MAX)
    table = projseg.Table.create(tmp_path / "t", ROWS.schema, projections=most)
    table.append(ROWS)
    (segment,) = table.segments().to_pylist()
    assert sorted(segment["projections"]) == sorted(p["name"] for p in most)
    assert segment["not_built"] == []


def test_more_projections_than_a_segment_embeds_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"PROJSEG_TOO_MANY_NAMES.*65 .*at most 64"):
        projseg.Table.create(tmp_path / "t", ROWS.schema, projections=declared(PROJECTIONS_MAX + 1))
    assert not projseg.is_table(tmp_path / "t")
    table = projseg.Table.create(tmp_path / "t", ROWS.schema, projections=declared(PROJECTIONS_MAX))
    with pytest.raises(InvalidInputError, match="PROJSEG_TOO_MANY_NAMES"):
        table.add_projection({"name": "one more", "sql": total()})
    table.drop_projection("p0")
    table.add_projection({"name": "one more", "sql": total()})
    assert len(table.projections()) == PROJECTIONS_MAX


@pytest.mark.parametrize("version", [0, 1])
def test_a_table_opened_at_a_version_is_for_reading(tmp_path, version):
    projseg.Table.create(tmp_path / "t", ROWS.schema, projections=declared(1)).append(ROWS)
    pinned = projseg.Table(tmp_path / "t", version=version)
    for write in (
        lambda: pinned.append(ROWS),
        lambda: pinned.overwrite(ROWS),
        lambda: pinned.add_projection({"name": "q", "sql": total()}),
        lambda: pinned.drop_projection("p0"),
    ):
        with pytest.raises(InvalidInputError, match=rf"PROJSEG_PINNED_VERSION.*version {version}"):
            write()
    assert projseg.Table(tmp_path / "t").version == 1
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1
    assert pinned.refresh().append(ROWS).version == 2


@pytest.mark.parametrize("name", ["", " ", "a\n", 7])
def test_a_name_of_a_write_is_a_text_that_is_not_blank(tmp_path, name):
    table = projseg.Table.create(tmp_path / "t", {"v": "int"})
    with pytest.raises(InvalidInputError) as caught:
        table.append({"v": [1]}, commit_as=name)
    assert caught.value.code == "PROJSEG_BAD_ARGUMENT"
