"""Block programs against the evaluator over Arrow arrays, which is their twin."""

from decimal import Decimal

import block_cases
import numpy as np
import pyarrow as pa
import pytest
from scale import tries

from projseg.aggregation.inputs import feed_states
from projseg.aggregation.state import Groups
from projseg.aggregation.state_table import new_state
from projseg.algebra.aggregates.primitive import Primitive
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.function_table import FUNCTIONS
from projseg.algebra.expressions.functions.scalar_function import NoBlocks
from projseg.algebra.expressions.tree import Call
from projseg.algebra.planning.source_plan import AddRows
from projseg.errors import EvaluationError, InvalidInputError
from projseg.evaluation import in_blocks
from projseg.evaluation.arrow_vectors import encode_sorted
from projseg.evaluation.choose import evaluate_over
from projseg.evaluation.in_blocks import block_values, evaluated_in_blocks
from projseg.evaluation.masks import filter_rows
from projseg.evaluation.rows import MemorySource, all_rows
from projseg.segment_format.arrow_arrays import WIDE, as_wide, to_objects
from projseg.segment_format.vectors import Numbers, Opaque

IN_BLOCKS_MIN = 0.3  # of the expressions that are drawn


@pytest.fixture(autouse=True)
def few_rows_in_blocks(monkeypatch):
    monkeypatch.setattr(in_blocks, "BLOCK_ROWS_MIN", 0)


def twin(expression, rows):
    columns = {name: rows.vector(name).to_arrow() for name in expression.columns}
    try:
        return evaluate(expression, columns, len(rows))
    except EvaluationError:
        return None


def stored_of(numbers):
    return to_objects(numbers.values) if numbers.values.dtype == WIDE else numbers.values


def is_same(found, expected):
    """Whether values agree, bit by bit but for the payload of NaN; nulls hold 0."""
    array = found.to_arrow()
    if array.type != expected.type or array.is_valid() != expected.is_valid():
        return False
    if found.validity is not None and any(stored_of(found)[~found.validity]):
        return False
    if array.type == pa.float64():
        held = (np.array(each.fill_null(0.0)) for each in (array, expected))
        one, other = (np.where(np.isnan(each), np.nan, each) for each in held)
        return np.array_equal(one.view(np.int64), other.view(np.int64))
    return array.equals(expected)


def compared(seed):
    """Return the expression of a seed that was computed in blocks; fail if it differs."""
    rng = block_cases.generator(seed)
    text = block_cases.expression(rng)
    rows = block_cases.random_rows(rng)
    try:
        expression = bind(text, block_cases.SCHEMA)
    except InvalidInputError:  # a type that the function does not take
        return None
    found = evaluated_in_blocks(expression, rows)
    if found is None:
        return None
    expected = twin(expression, rows)
    assert expected is not None, (seed, text, "refused")
    assert is_same(found, expected), (seed, text, found.to_arrow(), expected)
    return expression


def called_in(expressions):
    return {node.function for each in expressions for node in each.walk() if isinstance(node, Call)}


def test_expressions_are_what_the_evaluator_says():
    seeds = range(tries(160))
    computed = [found for found in map(compared, seeds) if found is not None]
    assert len(computed) > IN_BLOCKS_MIN * len(seeds)


def test_expressions_of_narrow_numbers_are_looked_up_by_value(monkeypatch):
    monkeypatch.setattr(in_blocks, "_ROWS_A_VALUE", 0)
    seeds = range(500, 500 + tries(160))
    computed = [found for found in map(compared, seeds) if found is not None]
    assert len(computed) > IN_BLOCKS_MIN * len(seeds)


def test_decimals_beyond_64_bits_in_a_dictionary_are_left_to_the_evaluator():
    values = [Decimal(number * 10**14) for number in range(5)]
    array = pa.array(values * 3, pa.decimal128(38, 18))
    numbers = Numbers(np.arange(15, dtype=np.uint8), pa.int32())
    rows = rows_of(x=encode_sorted(array), i=numbers)
    expression = bind("x BETWEEN i AND 100", pa.schema([("x", array.type), ("i", pa.int32())]))
    assert evaluated_in_blocks(expression, rows) is None


@pytest.mark.parametrize(
    "text", ["x % 7", "coalesce(x, 3) * 2", "x IS NULL", "nullif(x, 5) / 2", "1 / (x - 4)"]
)
@pytest.mark.parametrize("has_null", [False, True])
def test_what_fails_for_no_row_is_looked_up(text, has_null):
    values = np.array([9, 0, 5, 5, 3] * 100, np.uint8)
    validity = np.arange(500) % 3 > 0 if has_null else None
    rows = rows_of(x=Numbers(values, pa.int32(), -2, validity))
    expression = bind(text, pa.schema([("x", pa.int32())]))
    assert is_same(evaluated_in_blocks(expression, rows), twin(expression, rows))


@pytest.mark.slow
def test_many_expressions_of_all_functions_are_what_the_evaluator_says():
    seeds = range(1000, 21_000)
    computed = [found for found in map(compared, seeds) if found is not None]
    assert len(computed) > IN_BLOCKS_MIN * len(seeds)
    has_form = {n for n, each in FUNCTIONS.items() if not isinstance(each.in_blocks, NoBlocks)}
    assert has_form <= called_in(computed)


def rows_of(**columns):
    return all_rows(MemorySource(len(next(iter(columns.values()))), columns))


def whole(values, arrow_type=None, validity=None):
    return Numbers(np.array(values, np.int64), arrow_type or pa.int64(), 0, validity)


@pytest.mark.parametrize(
    ("text", "is_computed"),
    [
        ("b + c", True),
        ("b * 4611686018427387904L", False),  # may pass 64 bits
        ("b % c", False),  # a divisor is zero
        ("if(c <> 0, b % c, 0)", True),
        ("c <> 0 AND b % c = 1", True),
        ("b % c = 1 AND c <> 0", True),  # what may fail comes last
        ("coalesce(nullif(c, 0), b % c)", False),
        ("CAST(b AS TINYINT)", False),
        ("CASE WHEN b < 100 THEN CAST(b AS TINYINT) END", True),
        ("concat(s, 'x') = 'ax'", False),
        ("s = 'a' OR b > c", True),
    ],
)
def test_a_program_computes_what_cannot_fail_for_a_row_that_needs_it(text, is_computed):
    rows = rows_of(b=whole([7, 300, 9]), c=whole([2, 0, 0]), s=Opaque(pa.array(["a", "b", None])))
    if "s = " in text and is_computed:
        rows = rows_of(**rows.source.vectors | {"s": encode_sorted(pa.array(["a", "b", None]))})
    expression = bind(text, block_cases.SCHEMA)
    found = evaluated_in_blocks(expression, rows)
    assert (found is not None) == is_computed
    if found is not None:
        assert is_same(found, twin(expression, rows))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("b % c", "PROJSEG_EVALUATION_DIVIDE_BY_ZERO"),
        ("CAST(b AS TINYINT)", "PROJSEG_EVALUATION_OVERFLOW"),
        ("b * 9223372036854775807L", "PROJSEG_EVALUATION_OVERFLOW"),
        ("CAST(b AS INT) * 2000000000", "PROJSEG_EVALUATION_OVERFLOW"),
        ("pmod(-0.1, 10L) + b", "PROJSEG_EVALUATION_OVERFLOW"),
    ],
)
def test_what_fails_raises_the_evaluators_error(text, code):
    rows = rows_of(b=whole([7, 300]), c=whole([2, 0]))
    with pytest.raises(EvaluationError, match=code):
        evaluate_over(bind(text, block_cases.SCHEMA), rows)


def test_rows_that_are_few_are_left_to_the_evaluator(monkeypatch):
    rows = rows_of(b=whole([1, 2]), c=whole([3, 4]))
    monkeypatch.setattr(in_blocks, "BLOCK_ROWS_MIN", 3)
    assert block_values(bind("b + c", block_cases.SCHEMA), rows) is None


@pytest.mark.parametrize("has_nulls", [False, True])
def test_sums_of_chunks_are_the_sum(has_nulls):
    row_count = 150_000
    b, c = np.arange(row_count) % 1000, np.arange(row_count) % 7 - 3
    validity = b % 3 > 0 if has_nulls else None
    rows = rows_of(b=whole(b if validity is None else b * validity, validity=validity), c=whole(c))
    (argument,) = [bind("b * c", block_cases.SCHEMA)]
    primitive = Primitive("sum", (argument,))
    for ids in (None, (np.arange(row_count) % 5).astype(np.uint8)):
        groups = Groups(ids, 1 if ids is None else 5, row_count)
        state = new_state(primitive, groups.count)
        feed_states([state], [primitive], [AddRows((argument,), None)], rows, groups)
        products = b * c if validity is None else b * c * validity
        ids = np.zeros(row_count, np.uint8) if ids is None else ids
        expected = [int(products[ids == group].sum()) for group in range(groups.count)]
        assert state.finish().to_pylist() == expected


def test_conditions_on_two_columns_keep_the_rows_that_meet_them():
    rng = np.random.default_rng(1)
    b, c, i = (rng.integers(0, 100, 1000) for _ in range(3))
    rows = rows_of(b=whole(b), c=whole(c), i=whole(i, pa.int32()))
    kept = filter_rows(rows, bind("b < c AND c < i AND b % i < 20 AND i > 0", block_cases.SCHEMA))
    expected = (b < c) & (c < i) & (b % np.maximum(i, 1) < 20)
    assert kept.vector("b").wide().tolist() == b[expected].tolist()


@pytest.mark.parametrize(
    ("text", "is_computed"),
    [
        ("x * x", True),  # passes 128 bits, without their zeros it does not
        ("x * (1 - x)", True),
        ("x * w", True),
        ("w * w", False),  # ends with no zeros
        ("x / 100", True),
        ("x / w", False),
        ("x > w", True),
        ("x IN (1000.25, 7)", True),
        ("CASE WHEN x > w THEN x END", True),
        ("CAST(x AS DECIMAL(30,3))", True),
        ("CAST(x AS DECIMAL(20,18))", False),  # not all fit
        ("CAST(CASE WHEN x < 1 THEN x END AS DECIMAL(20,18))", True),
    ],
)
def test_programs_compute_decimals_of_many_digits(text, is_computed):
    amounts = [100_025, -7, 0, 10**6]
    zeros = np.array([amount * 10**16 for amount in amounts], object)
    odd = np.array([10**22 + 1, -(10**20), 3, 10**24], object)
    x = Numbers(as_wide(zeros), block_cases.TYPES["x"]).with_bounds()
    w = Numbers(as_wide(odd), block_cases.TYPES["w"]).with_bounds()
    expression = bind(text, block_cases.SCHEMA)
    rows = rows_of(x=x, w=w)
    found = evaluated_in_blocks(expression, rows)
    assert (found is not None) == is_computed
    if found is not None:
        assert is_same(found, twin(expression, rows))


def test_a_branch_that_no_row_takes_may_pass_its_type():
    text = "CASE WHEN c > 9 THEN b + 9223372036854775807L ELSE c END"
    rows = rows_of(b=whole([7, 8]), c=whole([1, 2]))
    found = evaluated_in_blocks(bind(text, block_cases.SCHEMA), rows)
    assert found is not None
    assert found.to_arrow().to_pylist() == [1, 2]
