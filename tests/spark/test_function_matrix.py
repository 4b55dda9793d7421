"""Functions over every type and awkward values: in Spark, here in every way, and in plain SQL."""

import math
import re

import function_matrix
import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException
from scale import IS_NIGHTLY
from spark_sql import plan_of, time_by_double, using

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.errors import ProjsegError
from projseg.evaluation import in_blocks
from projseg.evaluation.arrow_vectors import encode_sorted, numbers_of_array
from projseg.evaluation.in_blocks import evaluated_in_blocks
from projseg.evaluation.rows import MemorySource, all_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("silent_refusals")]

ZONE = "America/New_York"
TABLE = function_matrix.table()
COLUMNS = {name: TABLE[name].combine_chunks() for name in TABLE.column_names}
TEXTS_IN_CI = 300
SQL_TEXTS_IN_CI, SQL_TEXTS = 8, 600
BATCH = 100
RAISED = "raised"


@pytest.fixture(scope="module")
def rows(spark):
    """The rows as a view; Python would read a timestamp_ntz in the session's zone."""
    frame = spark.createDataFrame(TABLE)
    is_local = {field.name: field.type == pa.timestamp("us") for field in TABLE.schema}
    frame = frame.selectExpr(
        *(f"CAST({n} AS timestamp_ntz) AS {n}" if is_local[n] else n for n in TABLE.column_names)
    )
    frame.createOrReplaceTempView("function_matrix")
    yield frame
    spark.catalog.dropTempView("function_matrix")


def bound_texts(count):
    """Return texts that projseg binds with their trees, spread evenly."""
    every = [*dict.fromkeys([*function_matrix.calls(), *function_matrix.forms()])]
    every = [text for text in every if not any(own in text for own in function_matrix.OWN)]
    step = max(1, len(every) // count)
    found = {}
    for text in every[step // 2 :: step]:
        try:
            found[text] = bind(text, TABLE.schema, timezone=ZONE)
        except ProjsegError:  # a type that the function does not take
            continue
    return found


def of_spark(spark, texts):
    """Return (values, where there is one, without an error) of each text, None if Spark refuses it.

    `try_to_binary` is null where what is inside raises an error.
    """
    checks = [
        f"try_to_binary(IF(({text}) IS NULL, 'a', 'b'), 'utf-8') IS NOT NULL" for text in texts
    ]
    outputs = [
        part
        for number, (text, check) in enumerate(zip(texts, checks, strict=True))
        for part in (f"CASE WHEN {check} THEN {text} END AS x{number}", f"{check} AS y{number}")
    ]
    try:
        found = spark.sql(f"SELECT {', '.join(outputs)} FROM function_matrix").toArrow()
        columns = [column.combine_chunks() for column in found.columns]
        return [*zip(columns[::2], columns[1::2], strict=True)]
    except PySparkException:
        if len(texts) == 1:
            return [None]
    middle = len(texts) // 2
    return of_spark(spark, texts[:middle]) + of_spark(spark, texts[middle:])


def plain(array):
    """Return values that compare as they are stored: times as numbers, texts as bytes."""
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    elif array.type == pa.date32():
        array = array.cast(pa.int32())
    elif array.type == pa.string():
        array = array.cast(pa.binary())
    return array.to_pylist()


def of_evaluator(expression):
    """Return the value in each row, or the error's text."""
    try:
        return plain(evaluate(expression, COLUMNS, len(TABLE)))
    except ProjsegError:
        pass
    found = []
    for row in range(len(TABLE)):
        columns = {name: COLUMNS[name].slice(row, 1) for name in expression.columns}
        try:
            found += plain(evaluate(expression, columns, 1))
        except ProjsegError as error:
            found.append(error)
    return found


def is_same(one, other, is_rounded=False):
    if isinstance(one, float) and isinstance(other, float):
        if is_rounded and math.isclose(one, other, rel_tol=1e-14):
            return True
        is_equal = one == other and math.copysign(1, one) == math.copysign(1, other)
        return is_equal or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return type(one) is type(other) and one == other


ROUNDED = re.compile(r"^(exp|ln|log|log2|log10|power)\(")
NEGATED = re.compile(r"^(abs|negative|\(-) ?\(?([wxc])2?\)")
TIME_AS_DECIMAL = re.compile(r"^(TRY_)?CAST\((t2?) AS DECIMAL\(\d+,\d+\)\)$")
UNKNOWN_TIME = re.compile(r"^T?\d{1,2}:\d{2}| PST$")
LEFT_ALONE = (
    "not UTF-8",
    "outside years 1 to 9999",
    "PROJSEG_TEXT_TOO_LONG",
    "has a word boundary",
)


def is_of_release(text, row, kind, expected):
    """Whether Spark 4.0 casts a time by way of a double."""
    time = TIME_AS_DECIMAL.match(text)
    if time is None or pyspark.__version__ >= "4.1":
        return False
    return expected == time_by_double(COLUMNS[time[2]][row].value, kind)


def is_named(text, row, found, expected):
    """Whether a difference in a row is one of "Differences from Spark" in docs/functions.md."""
    if isinstance(found, ProjsegError):
        if expected is RAISED or expected is None:  # an error beside a null
            return True
        if any(part in str(found) for part in LEFT_ALONE):
            return True
        if any(UNKNOWN_TIME.search(str(COLUMNS[name][row])) for name in ("v", "v2")):
            return True
        if text.startswith("make_timestamp"):  # Spark's seconds wrap around
            return True
        is_wrapped = "DIV" in text or text.startswith("div(") or text == "split(s, 'a')[b]"
        return is_wrapped and found.code.startswith("PROJSEG_EVALUATION")
    if expected is RAISED:  # of a part that AND need not compute, or that has no format here
        is_text = text.startswith("unix_timestamp(") or "BETWEEN '1'" in text
        return is_text or NEGATED.match(text) is not None
    if text.startswith("TRY_CAST(") and found is None:
        cast = of_evaluator(bind(text.removeprefix("TRY_"), TABLE.schema, timezone=ZONE))[row]
        return isinstance(cast, ProjsegError) and is_named(text[4:], row, cast, expected)
    return NEGATED.match(text) is not None


def differences(text, expression, answer):
    """Return the rows in which the evaluator differs from Spark, or how the type does."""
    values, is_known = answer
    type_found, type_expected = expression.type, values.type
    if not pa.types.is_nested(type_found) and type_found != type_expected:
        is_decimal = pa.types.is_decimal(type_found) and pa.types.is_decimal(type_expected)
        is_null = "NULL" in text and pa.types.is_decimal(type_found)
        if not (is_null or (is_decimal and type_found.scale == type_expected.scale)):
            return [(text, str(type_found), str(type_expected))]
        return []
    known = is_known.to_pylist()
    expected = [v if k else RAISED for v, k in zip(plain(values), known, strict=True)]
    is_rounded = ROUNDED.match(text) is not None
    return [
        (text, row, found, value)
        for row, (found, value) in enumerate(zip(of_evaluator(expression), expected, strict=True))
        if not is_same(found, value, is_rounded)
        and not is_named(text, row, found, value)
        and not is_of_release(text, row, type_found, value)
    ]


def test_spark_agrees_about_every_function_and_type(spark, rows):
    bound = bound_texts(10**6 if IS_NIGHTLY else TEXTS_IN_CI)
    texts, different, asked = [*bound], [], 0
    with using(
        spark,
        **{
            "spark.sql.session.timeZone": ZONE,
            "spark.sql.subexpressionElimination.enabled": "false",
        },
    ):
        for start in range(0, len(texts), BATCH):
            part = texts[start : start + BATCH]
            for text, answer in zip(part, of_spark(spark, part), strict=True):
                if answer is not None:
                    asked += 1
                    different += differences(text, bound[text], answer)
    assert not different, (len(different), different[:5])
    assert asked > len(texts) / 2


def vector_of(array):
    """Return a column as numbers or ids, as segments keep it; None of types that have neither."""
    if pa.types.is_nested(array.type) or array.type in (pa.binary(), pa.float32()):
        return None
    return encode_sorted(array) if array.type == pa.string() else numbers_of_array(array)


def test_blocks_give_the_evaluators_values(monkeypatch):
    monkeypatch.setattr(in_blocks, "BLOCK_ROWS_MIN", 0)
    vectors = {name: vector_of(column) for name, column in COLUMNS.items()}
    held = {name: vector for name, vector in vectors.items() if vector is not None}
    source = all_rows(MemorySource(len(TABLE), held))
    compared = 0
    for text, expression in bound_texts(10**6 if IS_NIGHTLY else TEXTS_IN_CI).items():
        if not expression.columns or not expression.columns <= held.keys():
            continue
        found = evaluated_in_blocks(expression, source)
        if found is None:
            continue
        compared += 1
        expected = of_evaluator(expression)
        pairs = [*zip(plain(found.to_arrow()), expected, strict=True)]
        assert all(is_same(one, other) for one, other in pairs), (text, pairs)
    assert compared > 10


@pytest.fixture(scope="module")
def stored(spark, rows, tmp_path_factory):
    """A projseg table of the rows, by a view."""
    location = str(tmp_path_factory.mktemp("matrix") / "table")
    kept = [name for name in TABLE.column_names if not pa.types.is_nested(COLUMNS[name].type)]
    table = projseg.Table.create(location, pa.schema([TABLE.schema.field(name) for name in kept]))
    table.append(TABLE.select(kept))
    with using(spark, enabled="true"):
        spark.read.format("projseg").load(location).createOrReplaceTempView("stored_matrix")
    yield table
    spark.catalog.dropTempView("stored_matrix")


def test_a_table_gives_the_evaluators_values(stored):
    texts = [
        text
        for text, expression in bound_texts(10**6 if IS_NIGHTLY else TEXTS_IN_CI).items()
        if not pa.types.is_nested(expression.type)
        and expression.columns <= set(stored.schema.names)
        and not any(isinstance(value, ProjsegError) for value in of_evaluator(expression))
    ]
    for start in range(0, len(texts), BATCH):
        part = texts[start : start + BATCH]
        found = stored.query(
            columns=[f"{text} AS x{number}" for number, text in enumerate(part)],
            context={"timezone": ZONE},
        )
        for number, text in enumerate(part):
            values = plain(found[f"x{number}"].combine_chunks())
            expected = of_evaluator(bind(text, TABLE.schema, timezone=ZONE))
            assert all(map(is_same, values, expected)), text


def groups_of(spark, text):
    """Return the sorted rows of a group-by by an expression, or that it is refused."""
    try:
        frame = spark.sql(f"SELECT {text} AS e, count(*), min(b) FROM stored_matrix GROUP BY 1")
        found = frame.toArrow()
    except PySparkException:
        return RAISED, False
    columns = [plain(column.combine_chunks()) for column in found.columns]
    return sorted(zip(*columns, strict=True), key=repr), "ProjsegAnswer" in plan_of(frame)


@pytest.mark.slow
def test_plain_sql_gives_the_same_with_and_without_the_extension(spark, stored):
    count = SQL_TEXTS if IS_NIGHTLY else SQL_TEXTS_IN_CI * 3
    bound = bound_texts(count)
    texts = [
        text
        for text, expression in bound.items()
        if not pa.types.is_nested(expression.type)
        and expression.columns
        and expression.columns <= set(stored.schema.names)
    ]
    texts = texts if IS_NIGHTLY else texts[:SQL_TEXTS_IN_CI]
    texts += ["unix_seconds(n)", "unix_millis(n)", "unix_micros(n)", "sign(f)", "reverse(z)"]
    answered = 0
    with using(spark, **{"spark.sql.session.timeZone": ZONE}):
        for text in texts:
            expected, _ = groups_of(spark, text)
            with using(spark, enabled="true"):
                found, is_planted = groups_of(spark, text)
            answered += is_planted
            assert len(found) == len(expected), text
            pairs = zip(found, expected, strict=True)
            assert all(is_same([*one], [*other]) for one, other in pairs), (text, found, expected)
    assert answered >= 3
