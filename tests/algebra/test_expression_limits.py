"""What passes a limit is refused where it is declared; what does not is read ever after."""

import json
import pickle
import sys
import time

import pyarrow as pa
import pytest

import projseg
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.expression_limits import (
    DEPTH_MAX,
    JSON_DEPTH_MAX,
    TEXT_CHARACTERS_MAX,
    TYPE_DEPTH_MAX,
)
from projseg.algebra.expressions.render import to_sql
from projseg.algebra.expressions.sql_words import parse_type
from projseg.algebra.projection.druid_expressions import translate_expression
from projseg.algebra.projection.parse import parse_projection
from projseg.algebra.query.binding import bind_query
from projseg.algebra.query.request import Query
from projseg.errors import LimitExceededError, ProjsegError

ROWS = pa.table(
    {
        "s": ["a", "b", "b"],
        "v": pa.array([1, 2, None], pa.int64()),
        "x": [0.5, 1.5, -2.5],
        "b": [True, False, None],
        "t": pa.array([0, 1, 2], pa.timestamp("us", "UTC")),
        "amount": pa.array([1, 2, 3], pa.decimal128(5, 2)),
    }
)
CALLERS_FRAMES = 350


def nested(before, inner, after, depth):
    """An expression whose tree is `depth` deep."""
    return before * (depth - 1) + inner + after * (depth - 1)


TRIM = "trim(TRAILING 'a' FROM "
# From a depth to an aggregate that is just as deep inside.
SHAPES = {
    "sum": lambda n: f"sum({' + '.join(['v'] * n)})",
    "difference": lambda n: f"sum({' - '.join(['x'] * n)})",
    "product": lambda n: f"max({' * '.join(['x'] * n)})",
    "right": lambda n: f"sum({nested('(x - ', 'x', ')', n)})",
    "call": lambda n: f"min({nested('abs(', 'x', ')', n)})",
    "cast": lambda n: f"min({nested('CAST(CAST(', 'x', ' AS STRING) AS DOUBLE)', n // 2 + 1)})",
    "case": lambda n: f"max({nested('CASE WHEN b THEN 1D ELSE ', 'x', ' END', n)})",
    "condition": lambda n: f"max({nested('if(b, 1L, ', 'v', ')', n)})",
    "minus": lambda n: f"sum({'- ' * (n - 1)}x)",
    "trim": lambda n: f"max({nested(TRIM, 's', ')', n)})",
    "filter": lambda n: f"count(*) FILTER (WHERE {' + '.join(['v'] * (n - 1))} > 3)",
    "time": lambda n: f"max({nested('date_add(', 'CAST(t AS DATE)', ', 1)', n - 2)})",
}


def accepted(text, schema=ROWS.schema):
    try:
        parse_projection({"name": "p", "groupBy": ["s"], "aggregators": [text + " AS a"]}, schema)
    except LimitExceededError:
        return False
    return True


def from_far_below(frames, function):
    """Call from deep in Python's stack, as frameworks do."""
    return function() if frames == 0 else from_far_below(frames - 1, function)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_declared_can_be_appended_and_asked(tmp_path, shape):
    depths = [n for n in range(DEPTH_MAX - 6, DEPTH_MAX + 8) if accepted(SHAPES[shape](n))]
    deepest = SHAPES[shape](max(depths))
    assert depths == list(range(DEPTH_MAX - 6, max(depths) + 1))
    assert max(depths) < DEPTH_MAX + 7  # refused from there on

    def live():
        table = projseg.Table.create(
            tmp_path / "t",
            ROWS.schema,
            projections=[projseg.Projection("p", ["s"], [f"{deepest} AS a"])],
        )
        table.append(ROWS)
        assert table.segments()["not_built"].to_pylist() == [[]]
        question = {"group_by": "s", "aggregators": f"{deepest} AS a", "order_by": "s"}
        assert table.explain(**question).sources == {"p": 1}
        stored = table.query(**question)
        assert stored.num_rows == 2
        assert table.query(**question, context={"noProjections": True}).equals(stored)
        table.query(**question, having="a IS NOT NULL")
        query = bind_query(ROWS.schema, None, Query(**question))
        assert pickle.loads(pickle.dumps(query)) == query
        assert table.verify(deep=True) == []

    from_far_below(CALLERS_FRAMES, live)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", SHAPES)
def test_depth_does_not_depend_on_the_callers(shape):
    texts = [SHAPES[shape](n) for n in range(DEPTH_MAX - 1, DEPTH_MAX + 5)]
    at_once = [accepted(text) for text in texts]
    # A space more makes a text that was not bound before.
    later = from_far_below(CALLERS_FRAMES, lambda: [accepted(text + " ") for text in texts])
    assert later == at_once


HOSTILE = [
    "NOT " * 20_000 + "b",
    "CAST(" * 5_000 + "v" + " AS INT)" * 5_000,
    "[" * 40_000,
    "{" * 40_000,
    "INTERVAL " * 10_000 + "1 DAY",
    "(SELECT " * 10_000 + "1" + ")" * 10_000,
    "s" + " LIKE 'a'" * 10_000,
    "v" * (TEXT_CHARACTERS_MAX + 1),
]
HOSTILE_AT_NIGHT = [
    "(" * 40_000 + "v" + ")" * 40_000,
    "- " * 40_000 + "v",
    "~ " * 40_000 + "v",
    "abs(" * 15_000 + "v" + ")" * 15_000,
    "CASE WHEN " * 4_000 + "b" + " THEN b END" * 4_000,
    "CAST(v AS " + "array<" * 10_000 + "int" + ">" * 10_000 + ")",
    " + ".join(["v"] * 20_000),
    " = ".join(["b"] * 20_000),
    " ^ ".join(["v"] * 20_000),
    "v" + " IS NULL" * 10_000,
    "s" + "::string" * 10_000,
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "text",
    [*HOSTILE, *(pytest.param(text, marks=pytest.mark.slow) for text in HOSTILE_AT_NIGHT)],
    ids=lambda text: text[:12],
)
def test_hostile_texts_are_refused_in_one_line(text):
    for ask in (
        lambda: bind(text, ROWS.schema),
        lambda: bind_query(ROWS.schema, None, Query(filter=text)),
        lambda: bind_query(ROWS.schema, None, Query(columns=["v"], order_by=[text])),
        lambda: bind_query(ROWS.schema, None, Query(group_by="s", having=text)),
        lambda: bind_query(ROWS.schema, None, Query(aggregators=[f"max({text}) AS a"])),
        lambda: parse_projection({"name": "p", "sql": f"SELECT {text} GROUP BY ALL"}, ROWS.schema),
        lambda: parse_projection(
            {"name": "p", "sql": f"SELECT s, count(*) GROUP BY {text}"}, ROWS.schema
        ),
    ):
        with pytest.raises(ProjsegError) as refused:
            ask()
        assert "\n" not in str(refused.value)
    limit = sys.getrecursionlimit()
    assert limit == 1000


@pytest.mark.slow
def test_chains_of_conditions_and_of_texts_are_no_nesting():
    conditions = " OR ".join(f"v = {n} + x" for n in range(2_000))
    assert accepted(f"count_if({conditions})")
    assert accepted(f"max({' || '.join(['s'] * 1_000)})")
    assert bind(" AND ".join(["b"] * 9_000), ROWS.schema) == bind("b = true", ROWS.schema)


@pytest.mark.slow
def test_a_text_within_the_limit_whose_canonical_text_is_not_is_refused_at_once():
    """Intervals are shorter as they are written than as canonical text."""
    terms = [f"t<t+INTERVAL {n} DAY" for n in range(1, 3_900)]
    assert accepted(f"count_if({' OR '.join(terms[:2000])})")
    text = f"count_if({' OR '.join(terms)})"
    assert len(text) < TEXT_CHARACTERS_MAX
    with pytest.raises(LimitExceededError, match=r"projection 'p': .*100000"):
        parse_projection({"name": "p", "aggregators": [text]}, ROWS.schema)


@pytest.mark.slow
def test_the_canonical_text_of_the_deepest_expression_is_read_back():
    for shape in SHAPES.values():
        depth = max(n for n in range(DEPTH_MAX - 6, DEPTH_MAX + 7) if accepted(shape(n)))
        inner = shape(depth)
        inner = inner[inner.index("(") + 1 : -1]
        if "FILTER" in shape(depth):
            continue
        expression = bind(inner, ROWS.schema)
        assert bind(to_sql(expression), ROWS.schema) == expression


def druid(condition=None, virtual=()):
    return {
        "type": "aggregate",
        "name": "p",
        "virtualColumns": list(virtual),
        "groupingColumns": [{"type": "string", "name": "s"}],
        "aggregators": [{"type": "count", "name": "n"}],
        "filter": condition,
    }


def negated(times):
    condition = {"type": "selector", "dimension": "s", "value": "a"}
    for _ in range(times):
        condition = {"type": "not", "field": condition}
    return condition


@pytest.mark.parametrize("as_text", [False, True])
def test_deep_json_is_refused(as_text):
    def declare(condition):
        given = druid(condition)
        return parse_projection(json.dumps(given) if as_text else given, ROWS.schema)

    assert declare(negated(JSON_DEPTH_MAX - 2)) is not None
    for times in (JSON_DEPTH_MAX - 1, 300):
        with pytest.raises(ProjsegError, match=r"PROJSEG_BAD_PROJECTION.*nested more than"):
            declare(negated(times))


@pytest.mark.parametrize("depth", [500, 100_000])
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_json_text_nested_past_pythons_stack_is_refused(depth, brackets):
    opening = "[" if brackets == "[]" else '{"filter":'
    text = '{"name": "p", "type": "aggregate", "filter": ' + opening * depth + "1"
    text += brackets[1] * depth + "}"
    for declared in (text, opening * depth + "1" + brackets[1] * depth):
        with pytest.raises(ProjsegError, match="PROJSEG_BAD_PROJECTION"):
            parse_projection(declared, ROWS.schema)


def test_a_declaration_that_holds_itself_is_refused():
    condition = {"type": "not"}
    condition["field"] = condition
    with pytest.raises(ProjsegError, match="PROJSEG_BAD_PROJECTION"):
        parse_projection(druid(condition), ROWS.schema)


@pytest.mark.parametrize(
    "text",
    ["(" * 40_000 + "v" + ")" * 40_000, "!" * 50_000 + "b", "abs(" * 20_000 + "v", "v" * 10**6],
)
def test_hostile_druid_expressions_are_refused(text):
    with pytest.raises(ProjsegError):
        translate_expression(text, {})


@pytest.mark.parametrize("start", ["array<", "struct<a: ", "map<int, "])
def test_deeply_nested_types_are_refused_before_they_take_long(start):
    bind(f"CAST(NULL AS {nested(start, 'int', '>', TYPE_DEPTH_MAX)})", ROWS.schema)
    deep = nested(start, "int", ">", 3000)
    began = time.process_time()
    with pytest.raises(ProjsegError, match="PROJSEG_BAD_TYPE_NAME"):
        parse_type(deep)
    with pytest.raises(ProjsegError, match="PROJSEG_EXPRESSION_TOO_LONG"):
        bind(f"CAST(NULL AS {deep})", ROWS.schema)
    assert time.process_time() - began < 10


def test_virtual_columns_that_multiply_are_refused_before_they_fill_memory():
    virtual = [{"type": "expression", "name": "v0", "expression": "v"}]
    for n in range(1, 60):
        doubled = f"v{n - 1} + v{n - 1}"
        virtual.append({"type": "expression", "name": f"v{n}", "expression": doubled})
    with pytest.raises(ProjsegError, match="PROJSEG_EXPRESSION_TOO_LONG"):
        parse_projection(druid(virtual=virtual), ROWS.schema)
