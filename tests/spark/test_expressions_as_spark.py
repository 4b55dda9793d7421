"""Random expressions over extreme rows: Spark and every way of ours to compute them agree."""

import logging
import math

import block_cases
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from scale import tries

from projseg.aggregation import expressions_in_blocks
from projseg.aggregation.expressions_in_blocks import evaluated_in_blocks
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import EvaluationError, InvalidInputError

pytestmark = pytest.mark.spark

EXPRESSIONS_A_TABLE = 25
REFUSED = "refused"


@pytest.fixture(autouse=True)
def silent_refusals():
    """Many expressions are refused, each with a page of Java's stack."""
    logger = logging.getLogger("SQLQueryContextLogger")
    logger.disabled = True
    yield
    logger.disabled = False


@pytest.fixture(autouse=True)
def few_rows_in_blocks(monkeypatch):
    monkeypatch.setattr(expressions_in_blocks, "BLOCK_ROWS_MIN", 0)


def ours(expression, rows, columns):
    """Return the values by the evaluator and by block programs, None where these do not apply.

    Days outside years 1 to 9999, which Spark computes with, are refused.
    """
    try:
        evaluated = evaluate(expression, columns, len(rows))
    except EvaluationError as error:
        evaluated = None if "outside years 1 to 9999" in str(error) else REFUSED
    in_blocks = evaluated_in_blocks(expression, rows)
    return evaluated, None if in_blocks is None else in_blocks.to_arrow()


def of_spark(spark, texts):
    """Return Spark's values of each text over the view `rows`, or that it refuses them."""
    outputs = ", ".join(f"{text} AS x{number}" for number, text in enumerate(texts))
    try:
        answer = spark.sql(f"SELECT {outputs} FROM rows").toArrow()
        return [column.combine_chunks() for column in answer.columns]
    except AnalysisException:
        if len(texts) == 1:
            return [None]
    except PySparkException:
        if len(texts) == 1:
            return [REFUSED]
    middle = len(texts) // 2
    return of_spark(spark, texts[:middle]) + of_spark(spark, texts[middle:])


def is_same(found, expected):
    if isinstance(found, str) or isinstance(expected, str):
        return found is expected
    if found.type != expected.type:
        return False
    pairs = zip(found.to_pylist(), expected.to_pylist(), strict=True)
    return all(
        (one == other and math.copysign(1, one) == math.copysign(1, other))
        or (math.isnan(one) and math.isnan(other))
        if isinstance(one, float) and isinstance(other, float)
        else one == other
        for one, other in pairs
    )


def differences(spark, seed):
    """Return what differs for the expressions of a seed."""
    rng = block_cases.generator(seed)
    rows = block_cases.random_rows(rng)
    columns = {name: rows.vector(name).to_arrow() for name in block_cases.SCHEMA.names}
    spark.createDataFrame(pa.table(columns)).createOrReplaceTempView("rows")
    bound = {}
    while len(bound) < EXPRESSIONS_A_TABLE:
        text = block_cases.expression(rng)
        try:
            bound[text] = bind(text, block_cases.SCHEMA)
        except InvalidInputError:  # a type that the function does not take
            continue
    answers = dict(zip(bound, of_spark(spark, [*bound]), strict=True))
    different = []
    for text, expected in answers.items():
        evaluated, in_blocks = ours(bound[text], rows, columns)
        if expected is None:  # Spark takes no untyped NULL for a condition
            continue
        if evaluated is not None and not is_same(evaluated, expected):
            different.append((seed, text, evaluated, expected))
        elif in_blocks is not None and not is_same(in_blocks, expected):
            different.append((seed, text, "in blocks", in_blocks, expected))
    return different


@pytest.mark.parametrize("start", [0])
def test_spark_agrees(spark):
    found = [one for seed in range(tries(240) // 10) for one in differences(spark, seed)]
    assert not found, (len(found), found[:3])
