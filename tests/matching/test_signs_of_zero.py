"""0.0 and -0.0 are one group, so what tells them apart is answered from rows."""

import pyarrow as pa
import pytest

import projseg
from projseg.algebra.expressions.functions.function_table import SPELLINGS
from projseg.errors import ProjsegError

SCHEMA = pa.schema([("z", pa.float64()), ("y", pa.float64()), ("n", pa.int64())])
ARGUMENTS = ("z", "z, y", "y, z", "'a', z", "z, 'a', 'b'")
WRITTEN = ["CAST(z AS STRING)", "'' || z", "3 * z", "z / 7", "z % 3", "z = 0", "CAST(z AS INT)"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    groups = {"name": "by_z", "sql": "SELECT z, y, n, count(*) GROUP BY ALL"}
    place = tmp_path_factory.mktemp("zeros") / "t"
    made = projseg.Table.create(place, SCHEMA, projections=[groups])
    made.append({"z": [0.0, -0.0, 2.5] * 40, "y": [-1.0] * 120, "n": [7] * 120})
    return made


def test_each_function_of_a_stored_double_has_the_answer_of_rows(table):
    calls = [f"{name}({each})" for name in sorted(SPELLINGS) for each in ARGUMENTS]
    compared = set()
    for expression in [*WRITTEN, *calls]:
        query = {"group_by": f"{expression} AS v", "aggregators": "count(*) AS n"}
        try:
            rows = table.query(**query, context={"noProjections": True})
        except ProjsegError:  # no function of such arguments
            continue
        assert str(table.query(**query)) == str(rows), expression
        compared.add(expression)
    assert {*WRITTEN, "power(z, y)", "length(z)"} <= compared


def test_a_text_of_a_double_is_stored_beside_it(table):
    query = {"group_by": "CAST(z AS STRING)", "aggregators": "count(*)"}
    assert table.explain(**query).rejections["by_z"] == {"MISSING_VIRTUAL_COLUMN": 1}
    table.add_projection(
        {"name": "texts", "sql": "SELECT CAST(z AS STRING), count(*) GROUP BY ALL"},
        materialize=True,
    )
    assert table.explain(**query).sources == {"texts": 1}
