"""Numbers of JSON and CSV by `projseg_external`, against Spark's own reader of JSON."""

import random

import pytest
from scale import tries
from spark_sql import using

pytest.importorskip("sqlalchemy")
functions = pytest.importorskip("pyspark.sql.functions")

INTEGERS = ("tinyint", "int", "bigint")
TYPES = (*INTEGERS, "double", "decimal(20,2)", "decimal(38,0)", "decimal(30,10)")


def drawn_number(draw, kind):
    """Return the text of a number that may be too large; Spark takes no fraction for an integer."""
    text = draw.choice(["", "-"]) + str(draw.randrange(10 ** draw.randint(1, 38)))
    if kind in INTEGERS:
        return text
    if draw.random() < 0.6:
        text += "." + "".join(draw.choices("0123456789", k=draw.randint(1, 12)))
    return text + (f"e{draw.randint(-9, 9)}" if draw.random() < 0.2 else "")


@pytest.mark.sampled(len(TYPES))
@pytest.mark.parametrize("kind", TYPES)
def test_digits_are_those_of_the_file(spark, kind):
    draw = random.Random(kind)
    texts = [drawn_number(draw, kind) for _ in range(tries(4_000))]
    lines = [f'{{"a":{text}}}' for text in texts]
    frame = spark.createDataFrame(enumerate(lines), "n int, line string")
    read = frame.orderBy("n").select(functions.from_json("line", f"a {kind}").a)
    wanted = [value for (value,) in read.collect()]
    assert None in wanted or kind == "double"
    for form, data in (("json", lines), ("csv", texts)):
        text = "\\n".join(data)
        with using(spark, enabled="true"):
            found = spark.sql(
                f"SELECT a FROM projseg_external(source => 'inline', data => '{text}', "
                f"format => '{form}', schema => 'a {kind}', onError => 'null')"
            ).collect()
        assert [value for (value,) in found] == wanted, form
