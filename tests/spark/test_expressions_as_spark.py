"""Random expressions over extreme rows: Spark and every way of ours to compute them agree."""

import math

import block_cases
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import EvaluationError, InvalidInputError
from projseg.evaluation import in_blocks
from projseg.evaluation.in_blocks import evaluated_in_blocks

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("silent_refusals")]

EXPRESSIONS_A_TABLE = 25
REFUSED = "refused"
# Where an operand is null, Spark does not look at the other one, and we refuse what is wrong there;
# where NULL stands in the text, we do not look, and Spark refuses.
REFUSED_BY_ONE_MAX = 0.02


@pytest.fixture(autouse=True)
def few_rows_in_blocks(monkeypatch):
    monkeypatch.setattr(in_blocks, "BLOCK_ROWS_MIN", 0)


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
    if not has_same_type(found.type, expected.type):
        return False
    pairs = zip(found.to_pylist(), expected.to_pylist(), strict=True)
    return all(
        (one == other and math.copysign(1, one) == math.copysign(1, other))
        or (math.isnan(one) and math.isnan(other))
        if isinstance(one, float) and isinstance(other, float)
        else one == other
        for one, other in pairs
    )


def has_same_type(found, expected):
    """Whether types agree; constants such as `CAST(3 AS INT)` count by their digits among decimals.

    Spark gives them ten. And NULL among decimals makes a double of Spark's quotient.
    """
    if pa.types.is_decimal(found) and pa.types.is_decimal(expected):
        return found.scale == expected.scale
    return found == expected or (pa.types.is_decimal(found) and expected == pa.float64())


def differences(spark, seed):
    """Return what differs for the expressions of a seed, and how many only one side refuses."""
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
    different, refused_by_one = [], 0
    for text, expected in zip(bound, of_spark(spark, [*bound]), strict=True):
        evaluated, in_blocks = ours(bound[text], rows, columns)
        if expected is None or evaluated is None:  # Spark takes no untyped NULL for a condition
            continue
        if evaluated is REFUSED or expected is REFUSED:
            refused_by_one += evaluated is not expected
            if in_blocks is not None and expected is REFUSED and evaluated is REFUSED:
                different.append((seed, text, "in blocks", in_blocks))
            continue
        different += [
            (seed, text, found, expected)
            for found in (evaluated, in_blocks)
            if found is not None and not is_same(found, expected)
        ]
    return different, refused_by_one


def test_spark_agrees(spark):
    seeds = range(tries(240) // 10)
    found = [differences(spark, seed) for seed in seeds]
    different = [one for some, _ in found for one in some]
    assert not different, (len(different), different[:3])
    refused = sum(count for _, count in found)
    assert refused <= REFUSED_BY_ONE_MAX * EXPRESSIONS_A_TABLE * len(seeds)
