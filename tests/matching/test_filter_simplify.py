import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from predicate_cases import condition, predicates, tables, truths
from scale import tries

from projseg.algebra.expressions.bind import bind
from projseg.algebra.proofs.filter_proofs import ZoneSets, outcomes, simplify
from projseg.algebra.proofs.segment_facts import ColumnFacts, SegmentFacts


def column_facts(array):
    values = array.drop_null()
    has_nan = pa.types.is_floating(array.type) and bool(pc.any(pc.is_nan(values)).as_py())
    if has_nan:
        values = values.filter(pc.invert(pc.is_nan(values)))
    low, high = (f(values).as_py() if len(values) else None for f in (pc.min, pc.max))
    return ColumnFacts(low, high, array.null_count, has_nan=has_nan)


def facts_of(table):
    columns = {name: column_facts(table[name].combine_chunks()) for name in table.column_names}
    return SegmentFacts("s", table.num_rows, columns)


@settings(max_examples=tries(10_000, 100))
@given(predicates(), tables())
def test_zone_facts_foresee_every_outcome(text, table):
    expression = condition(text)
    found = outcomes(expression, ZoneSets(facts_of(table)))
    seen = set(truths(expression, table))
    foreseen = {True: found.true, False: found.false, None: found.null}
    assert all(foreseen[value] for value in seen)


@settings(max_examples=tries(10_000, 75))
@given(predicates(), predicates(), tables())
def test_simplified_filters_keep_the_same_rows(one, other, table):
    conditions = [condition(one), condition(other)]
    kept, is_empty = simplify(conditions, ZoneSets(facts_of(table)))
    every = [truths(c, table) for c in conditions]
    wanted = [all(values) for values in zip(*every, strict=True)]
    if is_empty:
        assert not any(wanted)
    else:
        left = [truths(c, table) for c in kept]
        rows = range(table.num_rows)
        assert [all(values[row] for values in left) for row in rows] == wanted


ZONES = {
    "i": ColumnFacts(5, 9),
    "j": ColumnFacts(1, 1, null_count=2),
    "s": ColumnFacts("ba", "bz", is_exact=False),
    "x": ColumnFacts(0.0, 1.0, has_nan=True),
    "b": ColumnFacts(True, True),
    "d": ColumnFacts(null_count=10),
}


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("i > 4", "always"),
        ("i = 10", "never"),
        ("i > 5", "some"),
        ("j = 1", "some"),
        ("j <=> 1", "some"),
        ("s LIKE 'b%'", "always"),
        ("s LIKE 'c%'", "never"),
        ("s = 'ba'", "some"),
        ("x <= 1D", "some"),
        ("x >= 0D", "always"),
        ("isnan(x)", "some"),
        ("b", "always"),
        ("NOT b", "never"),
        ("d IS NULL", "always"),
        ("d = date '2024-01-01'", "never"),
        ("i IS NOT NULL", "always"),
        ("i > 4 OR s = 'q'", "always"),
        ("i > 5 AND s = 'q'", "never"),
        ("i + i >= 10", "always"),
        ("t IS NULL", "always"),
        ("t > timestamp '2024-01-01'", "never"),
        ("length(s) > 3", "some"),
        ("startswith(s, 'b')", "always"),
        ("startswith(s, 'c')", "never"),
        ("NOT (i > 5 AND s = 'q')", "always"),
        ("NOT (i > 5 OR s = 'bq')", "some"),
        ("i = CAST(null AS BIGINT)", "never"),
        ("i + j >= 6", "some"),
        ("NOT length(s) > 3", "some"),
    ],
)
def test_conditions_are_told_from_zones(text, outcome):
    zones = ZoneSets(SegmentFacts("s", 10, ZONES))
    kept, is_empty = simplify([condition(text)], zones)
    assert outcome == ("never" if is_empty else "some" if kept else "always")


def test_unknown_bounds_prove_nothing_but_null_counts_do():
    zones = ZoneSets(SegmentFacts("s", 10, {"i": ColumnFacts(), "j": ColumnFacts(null_count=1)}))
    assert not simplify([condition("i IS NOT NULL")], zones)[0]
    assert simplify([condition("j IS NOT NULL")], zones)[0]
    assert simplify([condition("i > 0")], zones)[0]


def test_a_column_of_nan_alone_has_no_other_value():
    zones = ZoneSets(SegmentFacts("s", 10, {"x": ColumnFacts(has_nan=True)}))
    assert simplify([condition("x = double('NaN')")], zones) == ((), False)
    assert simplify([condition("x < 1D")], zones)[1]


def test_sums_of_narrow_columns_are_followed_through_their_widening():
    schema = pa.schema([("k", pa.int16()), ("i", pa.int64()), ("x", pa.float64())])
    facts = {"k": ColumnFacts(1, 2), "i": ColumnFacts(10, 20), "x": ColumnFacts(0.0, 1.0)}
    zones = ZoneSets(SegmentFacts("s", 5, facts))
    assert simplify([bind("k + i >= 11", schema)], zones) == ((), False)
    assert simplify([bind("k + i > 22", schema)], zones)[1]
    assert simplify([bind("x + x >= 0D", schema)], zones)[0]
    nothing = ZoneSets(SegmentFacts("s", 5, {**facts, "k": ColumnFacts(null_count=5)}))
    assert simplify([bind("k + i > 0", schema)], nothing)[1]
