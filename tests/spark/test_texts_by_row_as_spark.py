"""Random calls of functions of texts whose arguments differ from row to row, against Spark."""

import random

import pytest
import row_texts
from pyspark.errors import PySparkException
from scale import IS_NIGHTLY

from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import EvaluationError

pytestmark = pytest.mark.spark

ROWS = 40
TABLES, EXPRESSIONS_A_TABLE = 40, 50


def of_spark(spark, texts):
    """Return Spark's values of each text over the view `texts`, None for one that it refuses."""
    outputs = ", ".join(f"{text} AS x{number}" for number, text in enumerate(texts))
    try:
        answer = spark.sql(f"SELECT {outputs} FROM texts").toArrow()
        return [column.to_pylist() for column in answer.columns]
    except PySparkException:
        if len(texts) == 1:
            return [None]
    middle = len(texts) // 2
    return of_spark(spark, texts[:middle]) + of_spark(spark, texts[middle:])


def ours(text, columns):
    try:
        return evaluate(bind(text, row_texts.SCHEMA), columns, ROWS).to_pylist()
    except EvaluationError:
        return None


def test_spark_agrees(spark):
    for seed in range(TABLES if IS_NIGHTLY else 1):
        rng = random.Random(seed)
        table = row_texts.random_rows(rng, ROWS + 2).slice(1, ROWS)
        spark.createDataFrame(table).createOrReplaceTempView("texts")
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        texts = [row_texts.expression(rng) for _ in range(EXPRESSIONS_A_TABLE)]
        for text, expected in zip(texts, of_spark(spark, texts), strict=True):
            assert ours(text, columns) == expected, (seed, text)
