"""What projections answer by what follows from their states is what Spark answers from rows."""

import random

import pyarrow.parquet as pq
import pytest
from derived_cases import answered, asked, make_table, pairs, rows
from matching_tables import comparable
from scale import tries

from projseg.segment_format.logical_types import type_name

pytestmark = pytest.mark.spark

PAIRS = tries(250, 14)
APPROXIMATE = ("of_sketches",)


@pytest.mark.slow
def test_answers_of_projections_are_those_of_spark(spark, tmp_path):
    r = random.Random(11)
    drawn = [pair for pair in pairs(r, PAIRS) if pair[0] not in APPROXIMATE]
    row_seed = r.random()
    file = tmp_path / "rows.parquet"
    pq.write_table(rows(random.Random(row_seed), 150), file)
    spark.read.parquet(str(file)).createOrReplaceTempView("derived")
    compared = 0
    for start in range(0, len(drawn), 50):
        part = drawn[start : start + 50]
        table = make_table(random.Random(row_seed), str(tmp_path / str(start)), part)
        for number, (_, declared, question) in enumerate(part):
            answer = answered(table, number, question)
            if answer is None:
                answer = table.query(**asked(question), context={"noProjections": True})
            else:
                compared += 1
            expected = spark.sql(sql_of(question))
            assert in_order(answer.to_pylist()) == in_order(
                row.asDict() for row in expected.collect()
            ), (declared, question)
            types = [type_name(field.type) for field in answer.schema]
            assert [kind for _, kind in expected.dtypes] == [t.lower() for t in types], question
    assert compared > 0.9 * len(drawn)


def sql_of(question):
    """Return a question as a statement over the rows."""
    parts = asked(question)
    outputs = ", ".join((*parts["group_by"], *parts["aggregators"]))
    where = f" WHERE {parts['filter']}" if parts["filter"] else ""
    grouping = f" GROUP BY {', '.join(question['group_by'])}" if question["group_by"] else ""
    return f"SELECT {outputs} FROM derived{where}{grouping}"


def in_order(found):
    """Return rows that can be compared, in one order; instants as Spark's Python shows them."""
    return sorted((tuple(map(plain, row.values())) for row in found), key=repr)


def plain(value):
    naive = getattr(value, "tzinfo", None) is not None
    return comparable(value.replace(tzinfo=None) if naive else value)
