"""Questions that differ in values share what planning keeps; no answer depends on what is kept."""

import functools
import gc
import math
import random
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from sqlglot import exp
from support.scale import tries

import projseg
from projseg.algebra.expressions.dialect import parse_sql
from projseg.algebra.planning import match_projections
from projseg.algebra.planning.planner import Planner
from projseg.algebra.query.cache_key import lifted_literals
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT

START = datetime(2024, 5, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("us", "UTC")),
        ("text", pa.string()),
        ("other", pa.string()),
        ("code", pa.int32()),
        ("big", pa.int64()),
        ("tiny", pa.int8()),
        ("flag", pa.bool_()),
        ("price", pa.float64()),
        ("amount", pa.decimal128(10, 2)),
        ("day", pa.date32()),
    ]
)
VALUES = {
    "t": [START, START + timedelta(hours=30), START + timedelta(hours=5, microseconds=1)],
    "text": ["", "a", "b", "ab", "z", "no such", "\U0001f600", "%", "a%"],
    "other": ["", "x", "y", "'", "\\"],
    "code": [0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31)],
    "big": [0, 1, 2**31, 2**62, -(2**63), 2**63 - 1, 2**63],
    "tiny": [0, 1, 127, -128, 128],
    "flag": [True, False],
    "price": [0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 5e-324, 1],
    "amount": [Decimal("0.00"), Decimal("1.5"), Decimal("-1.25"), Decimal("99999999.99"), 1],
    "day": [date(2024, 5, 1), date(2024, 5, 2), date(1, 1, 1), date(9999, 12, 31)],
}
CONDITIONS = [
    *(f"{{c}} {operator} :{{p}}" for operator in ("=", "<", "<=", ">", ">=", "!=", "<=>", "=")),
    "{c} IN (:{p}, :{q})",
    "{c} NOT IN (:{p}, :{q})",
    "{c} BETWEEN :{p} AND :{q}",
    ":{p} < {c}",
    "{c} = :{p} OR {c} IS NULL",
    "{c} = :{p} OR code > 0",
    "coalesce({c}, :{p}) = :{q}",
    "{c} = :{p} AND {c} < :{q}",
    ":{p} = :{q}",
    ":{p} IS NULL",
    "{c} IS NOT NULL",
    "1 / code > 0 AND {c} = :{p}",
    "CAST({c} AS STRING) = :{p}",
    "NOT ({c} > :{p})",
    "{c} = :{p} = flag",
]
OUTPUTS = [
    {"group_by": "text", "aggregators": "count(*) AS n, sum(big) AS s, max(code) AS m"},
    {"group_by": ["text", "code > 0 AS up"], "aggregators": "count(*) AS n"},
    {"group_by": "date_trunc('DAY', t) AS d", "aggregators": "count(*) AS n, sum(code) AS s"},
    {"aggregators": "count(*) AS n, sum(code) AS s, avg(amount) AS a"},
    {"aggregators": "sum(code) FILTER (WHERE text = 'a') AS s, count(price) AS n"},
    {"aggregators": "sum(code) FILTER (WHERE text = :{p}) AS s, count(*) AS n"},
    {"group_by": "flag, day", "aggregators": "min(price) AS m", "having": "count(*) > :{h}"},
    {"columns": "code, text, price", "order_by": "code, text, t, price"},
    {"columns": "other", "order_by": "other, code, t", "limit": 3},
]
PROJECTIONS = [
    {"name": "texts", "group_by": ["text", "code"], "aggregators": ["count(*)", "sum(big)"]},
    {"name": "up", "group_by": ["text", "code > 0", "code"], "aggregators": ["count(*)"]},
    {
        "name": "hourly",
        "group_by": ["date_trunc('HOUR', t)", "text", "flag", "day"],
        "aggregators": ["count(*)", "sum(code)", "avg(amount)", "min(price)"],
    },
    {
        "name": "of_a",
        "group_by": ["code", "day"],
        "aggregators": ["sum(code) FILTER (WHERE text = 'a')"],
    },
    {
        "name": "positive",
        "group_by": ["text", "day"],
        "aggregators": ["count(*)"],
        "where": "code > 0",
    },
    {"name": "by_code", "columns": ["code", "text", "price"], "order_by": ["code"]},
]


def rows(rng, segment):
    """Return the rows of a segment, of which some columns have one value in it, or only nulls."""
    one = {name: rng.choice(values) for name, values in VALUES.items()}
    steady = rng.sample(SCHEMA.names[1:], 3)
    found = []
    for number in range(40):
        row = {name: rng.choice([None, *values]) for name, values in VALUES.items()}
        row |= {name: one[name] if name != steady[0] else None for name in steady}
        row["t"] = START + timedelta(days=segment, minutes=31 * number)
        row["big"] = rng.choice([None, 0, 1, 2**31, 5])
        row["code"] = rng.choice([None, -1, 0, 1, 2, 3])
        row["tiny"] = rng.choice([None, 0, 1, 127])
        row["amount"] = rng.choice([None, Decimal("1.50"), Decimal("-1.25")])
        row["price"] = rng.choice([None, 0.0, -0.0, 1.5, math.nan])
        found.append(row)
    return pa.Table.from_pylist(found, SCHEMA)


TEXTS = PROJECTIONS[:1]
PLAIN = [one for one in PROJECTIONS if one["name"] in ("texts", "up", "by_code")]


def made(folder, projections, *, deleted=False):
    """Return a table of three segments."""
    rng = random.Random(7)
    table = projseg.Table.create(
        folder / "t",
        SCHEMA,
        time_column="t",
        segment_granularity="DAY",
        projections=[projseg.Projection(**one) for one in projections],
    )
    for segment in range(3):
        table.append(rows(rng, segment))
    if deleted:
        table.delete("code = 3 OR text = 'z'")
    return table


KINDS = [
    *("plain", "plain with deleted rows", "all", "all with deleted rows"),
    *("texts", "texts with indexes", "texts with views"),
]


@pytest.fixture(scope="module", params=KINDS)
def table(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    projections = {"plain": PLAIN, "all": PROJECTIONS, "texts": TEXTS}[request.param.split()[0]]
    table = made(folder, projections, deleted="deleted" in request.param)
    if "indexes" in request.param:
        table.add_index(projseg.Index("values", ["text", "other", "code", "big"]))
    if "views" in request.param:
        table.create_view("v", "SELECT text, code, count(*), sum(big) FROM t GROUP BY 1, 2")
    return table


def forget():
    """Empty every cache of projseg in this process."""
    KEPT.clear()
    for one in CACHES:
        one.cache_clear()


CACHES = [
    one
    for one in gc.get_objects()
    if isinstance(one, functools._lru_cache_wrapper) and one.__module__.startswith("projseg.")
]


def question(rng):
    """Return a question with parameters, and the columns that each is compared with."""
    output, compared = dict(rng.choice(OUTPUTS)), {}
    for name, text in list(output.items()):
        if isinstance(text, str) and ":{" in text:
            compared |= {"p9": "text"} if ":{p}" in text else {"h9": "code"}
            output[name] = text.format(p="p9", h="h9")
    conditions = []
    for number in range(rng.randint(1, 3)):
        column = rng.choice(SCHEMA.names)
        text = rng.choice(CONDITIONS)
        names = [f"{kind}{number}" for kind in "pq" if f":{{{kind}}}" in text]
        compared |= dict.fromkeys(names, column)
        conditions.append(f"({text.format(c=column, p=f'p{number}', q=f'q{number}')})")
    output["filter"] = " AND ".join(conditions)
    return output, compared


def values(rng, compared):
    """Return values for parameters, most of the types of what they are compared with."""
    found = {}
    for name, column in compared.items():
        usual = VALUES[column if rng.random() < 0.95 else rng.choice(SCHEMA.names)]
        found[name] = rng.choice([*usual, *usual, None])
    return found


def same_values(rows):
    """Return rows so that NaN equals itself, and -0.0 is not 0.0."""
    return sorted(repr(row) for row in rows.to_pylist()), rows.schema


def asked(table, parts, args):
    """Return what becomes of a question: its rows and their sources, or the error's code."""
    try:
        answer = same_values(table.query(**parts, args=args))
    except ProjsegError as error:
        return error.code
    told = table.explain(**parts, args=args)
    sources = [
        (one["segment"], one["source"], sorted(one["rejected"].items()))
        for one in told.named_segments()
    ]
    return answer, [(told.pruned_segments, told.rejections), *sources]


def plain_question(rng):
    """Return a question that only compares columns with parameters, as dashboards do."""
    columns = rng.sample(["text", "other", "code", "big", "tiny"], rng.randint(1, 3))
    compared, conditions = {}, []
    for number, column in enumerate(columns):
        text = rng.choice(["{} = :p{}", "{} < :p{}", "{} >= :p{}", "{} IN (:p{})"])
        conditions.append(text.format(column, number))
        compared[f"p{number}"] = column
    output = dict(rng.choice([one for one in OUTPUTS if ":{" not in str(one)]))
    return {**output, "filter": " AND ".join(conditions)}, compared


def plain_values(rng, compared, filter):
    """Return values of a plain question, lists where its filter has them."""
    found = {}
    for name, column in compared.items():
        usual = VALUES[column] if rng.random() < 0.95 else [None, 1.5, "1"]
        is_list = f"(:{name})" in filter
        found[name] = [rng.choice(usual) for _ in range(rng.randint(1, 3))]
        found[name] = found[name] if is_list else found[name][0]
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(3))
def test_no_answer_depends_on_what_is_kept(table, seed):
    rng = random.Random(seed)
    questions = [question(rng) for _ in range(tries(60))]
    cases = [(one, values(rng, compared)) for one, compared in questions for _ in range(5)]
    questions = [plain_question(rng) for _ in range(tries(20))]
    cases += [
        (one, plain_values(rng, compared, one["filter"]))
        for one, compared in questions
        for _ in range(8)
    ]
    rng.shuffle(cases)
    forget()
    found = [asked(table, parts, args) for parts, args in cases]
    for (parts, args), kept in zip(cases, found, strict=True):
        forget()
        assert asked(table, parts, args) == kept, (parts, args)
        if isinstance(kept, tuple) and rng.random() < 0.2:
            base = table.query(**parts, args=args, context={"noProjections": True})
            assert same_values(base) == kept[0], (parts, args)
    answered = sum(isinstance(one, tuple) for one in found)
    assert answered > len(found) // 3
    assert sum("base" not in str(one[1]) for one in found if isinstance(one, tuple)) > 5


COLUMNS_OF_LITERALS = ["text", "other", "code", "big", "tiny", "day", "price", "amount"]
TIMES = [
    "t >= TIMESTAMP '{a}' AND t < TIMESTAMP '{b}'",
    "t >= '{a}' AND t < '{b}'",
    "t BETWEEN '{a}' AND '{b}'",
    "t > TIMESTAMP '{a}' + INTERVAL 90 MINUTES",
    "t >= TIMESTAMP '{a}' AND t < TIMESTAMP '{a}' + INTERVAL 1 DAY",
    "t >= CAST('{a}' AS TIMESTAMP) - INTERVAL 2 HOURS AND text > 'a'",
    "t >= DATE '{d}'",
    "t = '{a}'",
    "to_date(t) = '{d}'",
    "t >= '{a}' OR code = 1",
    "date_trunc('HOUR', t) >= '{a}'",
    "t <= TIMESTAMP '2024-05-02 03:00:00' AND code >= {n}",
    "t > :a",
    "t >= :a AND t < :a + INTERVAL 26 HOURS",
    "t >= :a - INTERVAL 1 MONTH AND t < '{b}'",
]
ZONES = [None, None, {"timezone": "Europe/Berlin"}]
WHOLE_NUMBERS = {"TINYINT": 7, "SMALLINT": 15, "INT": 31, "BIGINT": 63}


def as_spark_writes(text, rng):
    """Return a condition with names in quotes, whole numbers cast, and times in UTC."""
    text = re.sub(
        r"(?<![:'\w])(t|text|code|other|big|tiny|day|price|amount)(?![\w'(])", r"`\1`", text
    )
    text = re.sub(r"TIMESTAMP '([-0-9]+) ([:0-9]+)'", r"TIMESTAMP'\1T\2Z'", text)

    def cast(match):
        kinds = [
            kind
            for kind, bits in WHOLE_NUMBERS.items()
            if -(1 << bits) <= int(match[0]) < 1 << bits
        ]
        return f"CAST({match[0]} AS {rng.choice(kinds)})" if kinds else match[0]

    return re.sub(r"(?<=[=<>(,D] )-?[0-9]+(?![\w.])|(?<=\()-?[0-9]+(?=[,)])", cast, text)


def written_question(rng):
    """Return a maker of one question with constants in its text, which gives them new values."""
    columns = rng.sample(COLUMNS_OF_LITERALS, rng.randint(0, 2))
    forms = [
        *("{} = {}", "{} = {}", "{} < {}", "{} >= {}", "{} IN ({}, {})", "{} = {} OR code = 1"),
        *("{} > {} AND code = 2", "{} BETWEEN {} AND {}", "coalesce({}, {}) = {}", "{} != {}"),
    ]
    chosen = [(column, rng.choice(forms)) for column in columns]
    times = rng.sample(TIMES, rng.choice([0, 1, 1]))
    output = dict(rng.choice([one for one in OUTPUTS if ":{" not in str(one)]))
    output["context"] = rng.choice(ZONES)
    is_of_spark = rng.random() < 0.4
    has_interval = not times or rng.random() < 0.3

    def ask():
        first = START + timedelta(minutes=rng.choice([0, 30, 60, 31 * 40, 1440, 1441, -99, 3000]))
        last = first + timedelta(minutes=rng.choice([0, 29, 60, 1440, 2000, 9000]))
        texts = []
        for column, form in chosen:
            known = [*VALUES[column], *VALUES[column], None]
            given = [projseg.literal(rng.choice(known)) for _ in range(form.count("{}") - 1)]
            texts.append(form.format(column, *given))
        a, b = (f"{one:%Y-%m-%d %H:%M:%S}" for one in (first, last))
        texts += [one.format(a=a, b=b, d=a[:10], n=rng.choice([-1, 0, 2, 9])) for one in times]
        if is_of_spark:
            texts = [as_spark_writes(one, random.Random(one)) for one in texts]
        asked = {**output, "filter": " AND ".join(f"({one})" for one in texts) or None}
        if has_interval:
            asked["interval"] = rng.choice([(first, last), f"{a[:10]}/P1D", f"{a[:10]}/P2D"])
        return asked, {"a": first} if ":a" in str(times) else None

    return ask


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(2))
def test_no_answer_depends_on_the_constants_of_an_earlier_text(table, seed):
    rng = random.Random(f"written {seed}")
    asking = [written_question(rng) for _ in range(tries(30))]
    cases = [ask() for ask in asking for _ in range(6)]
    rng.shuffle(cases)
    forget()
    found = [asked(table, parts, args) for parts, args in cases]
    for (parts, args), kept in zip(cases, found, strict=True):
        forget()
        assert asked(table, parts, args) == kept, (parts, args)
    assert sum(isinstance(one, tuple) for one in found) > len(found) // 4


@pytest.mark.parametrize(
    "questions",
    [
        [{"filter": f"text = '{value}' AND code > {n}"} for n, value in enumerate("ab")],
        [{"filter": f"tiny = 0 AND other in ('x' , '{value}')"} for value in "bz"],
        [{"filter": f"code = -{n} AND (text <= '{n}')"} for n in (1, 2)],
        [{"filter": f"(`code` <= CAST(-{n} AS INT)) AND (`text` <= '{n}')"} for n in (1, 2)],
        [{"filter": f"(`t` >= TIMESTAMP'2024-05-01T00:00:0{n}Z')"} for n in (1, 2)],
        [{"filter": f"code = {n} AND big / 2 > {n}"} for n in (0, 0)],
        [{"filter": f"t >= TIMESTAMP '2024-05-01 00:0{n}:00' AND text = 'a'"} for n in (1, 2)],
        [{"filter": f"t >= '2024-05-01 00:00:0{n}' AND t < '2024-05-01 02'"} for n in (1, 2)],
        [{"filter": "t > :a", "args": {"a": START + timedelta(seconds=n)}} for n in (1, 2)],
        [{"interval": (START, START + timedelta(minutes=n))} for n in (1, 2)],
        [{"interval": f"2024-05-01T00:00:0{n}/P1D", "filter": f"text = '{n}'"} for n in (1, 2)],
    ],
)
def test_constants_of_a_text_and_times_have_slots(tmp_path, monkeypatch, questions):
    table = projseg.Table.create(
        tmp_path / "t", SCHEMA, time_column="t", projections=[projseg.Projection(**TEXTS[0])]
    )
    for hour in range(2):
        given = [
            {
                "t": START + timedelta(hours=hour, minutes=n),
                "text": text,
                "code": n - 2,
                "other": text,
            }
            for n, text in enumerate("abz12")
        ]
        table.append(pa.Table.from_pylist([{"tiny": n, **one} for n in (0, 1) for one in given]))
    chosen = []
    choose = Planner.choose
    monkeypatch.setattr(
        Planner, "choose", lambda self, facts: chosen.append(facts.name) or choose(self, facts)
    )
    forget()
    counts = []
    for parts in [questions[0], *questions]:
        table.query("text", "count(*) AS n", **parts)
        counts.append(len(chosen))
    assert counts[0] > 0
    assert counts[2] == counts[0]


@pytest.mark.parametrize(
    "text",
    [
        *("code = 1 -- 'a'", "text = 'a' 'b'", "text = 'it''s'", r"text = 'a\'b'", "code = 1L"),
        *("code = 1.5", "text LIKE 'a%'", "text <=> 'a'", "substr(text, 1, 2) = 'ab'"),
        *("text = r'a'", "code - 5 = 3", "code = 5 -3", 'text = "a"', "`co de` = 1", "code = 1e3"),
        *("`co``de` = 1", "`1` = 1", "tiny = CAST(128 AS TINYINT)", "CAST(code AS INT) = 1"),
        *("text = :literal_text_0", "code = '1' /* */", "big = 1234567890123456789012"),
    ],
)
def test_a_constant_that_is_more_than_a_plain_one_stays_in_the_text(text):
    assert lifted_literals(text) is None


def with_casts(text):
    """Return a text with casts of texts in place of typed constants, as parameters have them."""
    return re.sub(r"\b(DATE|TIMESTAMP) ?('[^']*')", r"CAST(\2 AS \1)", text)


@pytest.mark.parametrize("count", [1, 2])
def test_a_text_with_parameters_has_the_tree_of_the_text(count):
    rng = random.Random(count)
    words = (
        "code text t = < >= AND OR NOT ( ) , - 'a' '2024-05-01' DATE TIMESTAMP BETWEEN 5 17 + ::"
    )
    words = [*words.split(), "IN (", "LIKE", "INTERVAL", "DAY", "x1", "CASE", "WHEN"]
    words += [":p", "[", "]", "COLLATE", "''", ".", "r"]
    words += ["`t`", "`code`", "`", "CAST(5 AS INT)", "cast( -17 AS BIGINT )", "CAST(", "AS INT"]
    found = 0
    for _ in range(tries(6000)):
        text = " ".join(rng.choice(words) for _ in range(rng.randint(3, 9)))
        text = text.replace(" ", rng.choice([" ", " ", ""]))
        if rng.random() < 0.5:
            text = f"code = 1 AND {text}"
        lifted = lifted_literals(text)
        if lifted is None:
            continue
        found += 1
        tree = parse_sql(with_casts(lifted.text))
        for name, value in lifted.values.items():
            given = value if isinstance(value, tuple) else (value,)
            for one in [one for one in tree.find_all(exp.Placeholder) if one.name == name]:
                kind = name.split("_")[1]
                form = f"CAST({{}} AS {kind})" if kind.upper() in WHOLE_NUMBERS else "{}"
                parts = [parse_sql(form.format(projseg.literal(one.value))) for one in given]
                if isinstance(value, tuple):
                    one.parent.set("expressions", parts)
                else:
                    one.replace(parts[0])
        assert tree == parse_sql(with_casts(text)), text
    assert found > 10


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("code = :a AND text < :b", [{"a": 1, "b": "b"}, {"a": 2, "b": "z"}]),
        ("text IN (:a)", [{"a": ["a", "b"]}, {"a": ["z", "ab", ""]}]),
        ("t >= :a AND text = :b", [{"a": START + timedelta(hours=n), "b": "a"} for n in (1, 3)]),
    ],
)
def test_other_values_share_the_matching(tmp_path, monkeypatch, condition, values):
    table = made(tmp_path, PLAIN)
    matched = []
    match = match_projections.match_projection
    monkeypatch.setattr(
        match_projections, "match_projection", lambda *given: matched.append(given) or match(*given)
    )
    counts = []
    for args in values:
        table.query("text", "count(*) AS n", filter=condition, args=args)
        counts.append(len(matched))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("first", ["a", "b", "z"])
@pytest.mark.parametrize(
    "condition",
    [
        "text = :a AND (code > 1 OR :a = 'b')",
        "text = :a AND 'b' <= :a",
        "text = CASE WHEN code > 1 THEN 'b' ELSE :a END",
        "text = CASE WHEN code > 1 THEN :a ELSE 'b' END",
        "text = :a AND text = 'b'",
        "text = 'b' AND :a = text",
        "text IN (:a, 'b')",
        "text >= :a AND text IN ('b', 'z')",
        "text = coalesce(:a, 'b')",
        "NOT (text = :a)",
        "text = :a OR code = 0",
        "other = :a AND text = :a",
    ],
)
def test_a_value_that_decides_more_than_a_comparison_has_no_slot(tmp_path, condition, first):
    table = projseg.Table.create(tmp_path / "t", SCHEMA, time_column="t")
    given = zip("aabbz", [0, 1, 2, 3, 4], "xabzz", strict=True)
    rows = [{"text": text, "code": code, "other": other} for text, code, other in given]
    table.append(pa.Table.from_pylist([{**one, "t": START} for one in rows]))
    asked = functools.partial(table.query, columns="code", filter=condition, order_by="code")
    alone = {}
    for value in "abz":
        forget()
        alone[value] = asked(args={"a": value})
    forget()
    asked(args={"a": first})
    for value in "abz":
        assert asked(args={"a": value}) == alone[value]


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("text = :a AND code > :b", [{"a": "a", "b": 0}, {"a": "b", "b": 1}]),
        ("tiny = 0 AND other IN (:b)", [{"b": ["x", "y"]}, {"b": ["y", "'"]}]),
        ("text = ? AND code = ?", [["a", 1], ["b", 2]]),
    ],
)
@pytest.mark.parametrize("kind", ["rows", "indexes", "views"])
def test_a_template_chooses_once_for_all_values(tmp_path, monkeypatch, kind, condition, values):
    table = projseg.Table.create(
        tmp_path / "t", SCHEMA, time_column="t", projections=[projseg.Projection(**TEXTS[0])]
    )
    for hour in range(2):
        given = [
            {"t": START + timedelta(hours=hour), "text": text, "code": code, "other": other}
            for text, code, other in zip("aabbz", [0, 1, 2, 3, 4], "x'yyx", strict=True)
        ]
        table.append(pa.Table.from_pylist([{"tiny": n, **one} for n in (0, 1) for one in given]))
    if kind == "indexes":
        table.add_index(projseg.Index("values", ["text", "code", "other"]))
    if kind == "views":
        table.create_view("v", "SELECT text, count(*) FROM t GROUP BY 1")
    chosen = []
    choose = Planner.choose
    monkeypatch.setattr(
        Planner, "choose", lambda self, facts: chosen.append(facts.name) or choose(self, facts)
    )
    forget()
    counts = []
    for args in values:
        table.query("text", "count(*) AS n", filter=condition, args=args)
        counts.append(len(chosen))
    assert counts[0] > 0
    assert (counts[1] > counts[0]) is (kind == "views")
