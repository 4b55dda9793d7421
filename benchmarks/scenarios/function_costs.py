"""What each function and aggregate costs a row, by shape of its arguments and by where it stands.

The cases are drawn from the records of functions: for each type that a first argument may have, the
first arguments beside it that need no cast. So a new function is measured by being there; only
operators, which have no name, have forms here. Values differ in nearly every row, so nothing is
computed once for each value of a dictionary.
"""

from __future__ import annotations

import json
import re
import statistics
import time
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlglot

import projseg
from projseg.algebra.aggregates.aggregate_functions import AGGREGATES
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate, evaluate_in_parts, has_form
from projseg.algebra.expressions.functions.function_table import FUNCTIONS, SPELLINGS
from projseg.algebra.expressions.functions.scalar_function import Spelling
from projseg.algebra.expressions.tree import Call, Expression
from projseg.algebra.planning.call_work import work_name
from projseg.benchmarks.bench import Bench, find_difference, normalised
from projseg.benchmarks.peers.spark_peer import local_session
from projseg.benchmarks.workload import Question, require_known
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT

_TIME: Final = pa.timestamp("us", tz="UTC")
_COLUMNS: Final = {
    "i": pa.int32(),
    "b": pa.int64(),
    "d": pa.float64(),
    "m": pa.decimal128(12, 2),
    "w": pa.decimal128(38, 10),
    "s": pa.string(),
    "c": pa.string(),
    "v": pa.string(),
    "x": pa.binary(),
    "t": _TIME,
    "n": pa.timestamp("us"),
    "k": pa.date32(),
    "p": pa.bool_(),
    "a": pa.list_(pa.string()),
}
"""`v` are numbers in texts, `c` short texts."""
_SCHEMA: Final = pa.schema(
    [(f"{name}{other}", kind) for other in ("", "2") for name, kind in _COLUMNS.items()]
)
"""Of each column there is another of its type, such as `i2`."""
_CONSTANTS: Final = (
    *("2", "'a'", "1.5D", "'DAY'", "'yyyy-MM'", "'UTC'", "'P1D'", "'[a-e]+'"),
    *("X'6162'", "TIMESTAMP '2024-05-03 04:05:06'", "DATE '2024-05-03'", "TRUE", "1.25BD"),
)
_CONSTANT_OF: Final = {
    "i": "7",
    "b": "1234567",
    "d": "7.25D",
    "m": "7.25BD",
    "w": "1234567.25BD",
} | {
    "s": "'http://page7/ab?c'",
    "c": "'ab'",
    "v": "'7.25'",
    "x": "X'616263'",
    "t": "TIMESTAMP '2024-05-03 04:05:06'",
    "n": "TIMESTAMP_NTZ '2024-05-03 04:05:06'",
    "k": "DATE '2024-05-03'",
    "p": "TRUE",
    "a": "array('a', 'b')",
}
"""A constant of each column's type."""
_BESIDE: Final = ("i", "c", "s", "b", "t", "k", "p2", "d", "x")
"""The columns that are tried beside the first, in this order."""
_INFIX: Final = ("=", "!=", "<=>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^")
_FORMS: Final = {
    **{operator: f"{{0}} {operator} {{1}}" for operator in _INFIX},
    **{word: f"{{0}} {word.upper()} {{1}}" for word in ("like", "rlike", "and", "or")},
    "not": "NOT {0}",
    "~": "~{0}",
    "in": "{0} IN ('a', 'b')",
    "add_interval": "{0} + INTERVAL '1 MONTH 2 DAYS'",
    "time_bucket": "time_bucket(INTERVAL '36 HOURS', {0})",
    "timestampdiff": "timestampdiff(HOUR, {0}, {1})",
    "regexp_extract": "regexp_extract({0}, '([a-z]+)[0-9]', 1)",
    "item": "{0}[{1}]",
    "is_null": "{0} IS NULL",
    "case": "CASE WHEN {0} THEN {1} ELSE {2} END",
    "concat": "{0} || {1}",
}
"""How the operators are written; all other functions are called by their names."""
_CASTS: Final = (
    *("INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(18,2)", "DECIMAL(38,10)", "STRING", "BINARY"),
    *("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BOOLEAN"),
)
_ARGUMENTS_MAX: Final = 3  # of functions that take more, so many are written
_TRIES_MAX: Final = 40
_PLAIN: Final = "SELECT {0} AS e FROM data"
_ROLES: Final = {
    "aggregate": "SELECT count({0}) AS n, max({0}) AS e FROM data",
    "filter": "SELECT count(*) AS n FROM data WHERE {0}",
    "group": "SELECT {0} AS e, count(*) AS n FROM data GROUP BY {0} ORDER BY n DESC, e LIMIT 5",
    "sort": "SELECT {0} AS e FROM data ORDER BY e DESC LIMIT 5",
}
_CONDITIONS: Final = {
    pa.bool_(): "{0}",
    pa.string(): "{0} >= 'http://page5'",
    pa.binary(): "{0} >= X'61'",
    pa.date32(): "{0} >= DATE '2024-05-01'",
    _TIME: "{0} >= TIMESTAMP '2024-05-01 00:00:00'",
    pa.timestamp("us"): "{0} >= TIMESTAMP_NTZ '2024-05-01 00:00:00'",
}
"""By type of the value; other types are compared with a number."""
_NULL_SHARE: Final = 1 / 40
_LIMITS_MS: Final = (150, 1000, 5000)
_RATIOS: Final = (1.0, 1.5, 3.0)
_NOISE: Final = 1.2  # how far two times of one statement may lie apart
_WORST: Final = 20
_WORK_MAX: Final = 5000.0  # of a call that repeats its argument as often as a column says
_MEASURE: Final = "1M rows, cpu ms"
_REFUSED: Final = sqlglot.ErrorLevel.RAISE
_APPROXIMATE: Final = frozenset(
    name
    for name, function in AGGREGATES.items()
    if {"hll", "theta", "kll", "values", "distinct"} & {*function.primitives} or "by" in name
) | {"first", "last", "any_value"}
"""Aggregates of which several values are right, or an estimate."""
_FILE: Final = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_OTHERWISE_IN_DUCKDB: Final = re.compile("|".join(_FILE["different_in_duckdb"].values()))


@dataclass(frozen=True)
class FunctionCase:
    """A call: the function's name, the shape of its arguments, its text, and the type of its value.

    An aggregate has no type.
    """

    function: str
    shape: str
    text: str
    type: pa.DataType | None


def function_cases(wanted: Container[str] = ()) -> Iterator[FunctionCase]:
    """Yield calls over `data` of every scalar function, or of those that are wanted."""
    forms: list[tuple[str, str, _Make]] = []
    for name, spelling in SPELLINGS.items():
        if name == spelling.name:
            most = max(spelling.fewest, min(spelling.most, _ARGUMENTS_MAX))
            for count in range(max(spelling.fewest, 1), most + 1):
                form = f"{name}({', '.join(f'{{{place}}}' for place in range(count))})"
                forms.append((name, form, partial(_built, spelling)))
    casts = [(name, f"{name}({{0}} AS {kind})") for kind in _CASTS for name in ("cast", "try_cast")]
    for name, form in (*_FORMS.items(), *casts):
        forms.append((name, form, partial(_bound, form)))
    for name, form, make in forms:
        if not wanted or name in wanted:
            yield from _calls(name, form, form.count("{"), make)


def _built(spelling: Spelling, arguments: list[str]) -> Expression:
    return spelling.build(tuple(_NODES[one] for one in arguments), "UTC")


def _bound(form: str, arguments: list[str]) -> Expression:
    return bind(form.format(*arguments), _SCHEMA)


def uncovered_functions() -> set[str]:
    """Return the functions of trees that no case calls: those that no text is bound to alone."""
    called = set()
    for case in function_cases():
        tree = bind(case.text, _SCHEMA)
        called |= {node.function for node in tree.walk() if isinstance(node, Call)}
    return set(FUNCTIONS) - called


def aggregate_cases(table: projseg.Table, wanted: Container[str] = ()) -> Iterator[FunctionCase]:
    """Yield aggregates that a small table answers, one for each type of their first argument."""
    chosen = {name: one for name, one in AGGREGATES.items() if not wanted or name in wanted}
    for name, function in chosen.items():
        written = f"{name.removesuffix('_distinct')}(DISTINCT {{}})"
        form = written if name.endswith("_distinct") else f"{name}({{}})"
        shares = ", 0.5" if function.takes_shares or "percentile" in name else ""
        for first in _COLUMNS:
            arguments = ", ".join([first, *["b"] * (len(function.arguments) - 1)])
            text = form.format(arguments + shares)
            if _answer(table, _PLAIN.format(text)) is not None:
                yield FunctionCase(name, "columns", text, None)


_Make = Callable[[list[str]], Expression]


def _calls(name: str, form: str, count: int, make: _Make) -> Iterator[FunctionCase]:
    """Yield the calls of a form: columns alone, one column beside constants, constants alone."""
    types = set()
    for first in _COLUMNS:
        columns = [f"{first}2", *_BESIDE]
        shapes = {"columns": columns}
        if count > 1:
            shapes["column and constants"] = [_CONSTANT_OF[first], *_CONSTANTS]
        for shape, choices in shapes.items():
            key = _COLUMNS[first], shape, first == "v" and "cast" in name
            found = None if key in types else _first(make, first, [choices] * (count - 1))
            if found is None:
                continue
            types.add(key)
            arguments, result = found
            yield FunctionCase(name, shape, form.format(*arguments), result)
            constants = [_CONSTANT_OF.get(one.removesuffix("2"), one) for one in arguments]
            if shape == "columns" and _type_of(make, constants) is not None:
                yield FunctionCase(name, "constants", form.format(*constants), result)


def _first(
    make: _Make, first: str, choices: list[list[str]]
) -> tuple[list[str], pa.DataType] | None:
    """Return the first arguments that need no cast, and the type of the value over them."""
    for others in islice(product(*choices), _TRIES_MAX):
        arguments = [first, *others]
        found = _type_of(make, arguments)
        if found is not None:
            return arguments, found
    return None


def _type_of(make: _Make, arguments: list[str]) -> pa.DataType | None:
    """Return the type of a call that is computed as it is written; None if there is none such."""
    try:
        tree = make(arguments)
        below = [node for child in tree.children for node in child.walk()]
        if any(isinstance(node, Call) and "cast" in node.function for node in below):
            return None
        evaluate(tree, _SAMPLE, _SAMPLE_ROWS)
    except ProjsegError:
        return None
    return tree.type


def made_rows(count: int) -> pa.Table:
    """Return rows whose values differ, of each type two columns or more; one in 40 is null."""
    columns = [*_columns(count, 2024), *_columns(count, 2025)]
    return pa.table(columns, schema=_SCHEMA)


def _columns(count: int, seed: int) -> Iterator[pa.Array]:
    draw = np.random.default_rng(seed)
    whole = draw.integers(-(10**9), 10**9, count)
    numbers, micros = whole.tolist(), 1_714_521_600_000_000 + whole * 10_007
    texts = [f"http://page{n % 99991}/{n:x}?q={'aäö€'[n % 4]}" for n in numbers]
    columns: dict[str, Any] = {
        "i": whole % 1000 + 1,
        "b": whole,
        "d": draw.normal(0.0, 1000.0, count),
        "m": [Decimal(n).scaleb(-2) for n in numbers],
        "w": [Decimal(n * n).scaleb(-10) for n in numbers],
        "s": texts,
        "c": [f"{n % 26 + 10:x}{n % 7}" for n in numbers],
        "v": [f"{n / 100:.2f}" for n in numbers],
        "x": [text.encode() for text in texts],
        "t": micros,
        "n": micros,
        "k": (19_800 + whole // 10**6).astype("datetime64[D]"),
        "p": whole % 3 == 0,
        "a": [text.split("/") for text in texts],
    }
    for name, kind in _COLUMNS.items():
        is_whole = name in ("i", "b", "t", "n")
        column = pa.array(columns[name], pa.int64() if is_whole else kind).cast(kind)
        is_null = pa.array(draw.random(count) < _NULL_SHARE)
        yield pc.if_else(is_null, pa.scalar(None, kind), column)


_SAMPLE_ROWS: Final = 40
_SAMPLE: Final = {
    name: column.combine_chunks()
    for name, column in zip(_SCHEMA.names, made_rows(_SAMPLE_ROWS).columns, strict=True)
}


_NODES: Final = {
    one: bind(one, _SCHEMA) for one in (*_SCHEMA.names, *_CONSTANT_OF.values(), *_CONSTANTS)
}


def measure_functions(bench: Bench) -> None:
    """Add the figures of every call, and of the worst; note the answers that differ."""
    with ExitStack() as stack:
        _measure(bench, stack)


def _measure(bench: Bench, stack: ExitStack) -> None:
    rows = made_rows(bench["rows"])
    table = _loaded(bench.folder / "data", rows)
    wanted, shapes = bench.names("functions"), bench.names("shapes")
    few = _loaded(bench.folder / "few", rows.slice(0, _SAMPLE_ROWS))
    drawn = [*function_cases(wanted), *aggregate_cases(few, wanted)]
    cases = [case for case in drawn if not shapes or case.shape in shapes]
    cases = cases[:: max(len(cases) // (bench["cases"] or len(cases) or 1), 1)]
    engines: dict[str, _Engine] = {"projseg": lambda text: _answer(table, text)}
    for peer in bench.names("peers"):
        require_known(peer, _PEERS, "a peer")
        engines[peer] = _PEERS[peer](bench, rows, stack)
        bench.peers.append(peer)
    found: dict[tuple[str, str], _Times] = {}
    roles = bench.names("roles")
    work = bench["work"]
    for number, case in enumerate(cases):
        bench.progress(f"{number} of {len(cases)}: {case.text}")
        for role in roles if case.type is not None and case.shape != "constants" else roles[:1]:
            times = _measured(bench, case, role, engines)
            found[role, case.text] = times
            for way, took in times.items():
                bench.add(f"{role}, {case.shape}", case.text, way, {_MEASURE: took})
    _add_summary(bench, found)
    if work:
        Path(work).write_text(_work_table(cases, rows, found), encoding="utf-8")


def _work_table(
    cases: Iterable[FunctionCase], rows: pa.Table, found: Mapping[tuple[str, str], _Times]
) -> str:
    """Return `call_work.json`: nanoseconds a row of each call over columns.

    Spark's are the time of its statement less that of its quickest one.
    """
    name = "spark-parquet"
    spark = {text: times[name] for (_, text), times in found.items() if name in times}
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    took: dict[str, list[float]] = {}
    in_spark: dict[str, list[float]] = {}
    for case in cases:
        tree = None if case.type is None else bind(case.text, _SCHEMA)
        if case.shape != "columns" or not isinstance(tree, Call) or has_form(tree):
            continue
        seconds = _seconds_to_evaluate(tree, columns, len(rows))
        if seconds is not None and all(not node.children for node in tree.children):
            took.setdefault(work_name(tree), []).append(seconds / len(rows) * 1e9)
            if case.text in spark:
                above = spark[case.text] - min(spark.values())
                in_spark.setdefault(work_name(tree), []).append(above)
    table = {
        name: [
            float(f"{min(max(statistics.median(each[name]), 1.0), _WORK_MAX):.2g}")
            for each in (took, in_spark)
            if name in each
        ]
        for name in sorted(took)
    }
    return json.dumps(table, indent=0) + "\n"


def _seconds_to_evaluate(
    tree: Call, columns: Mapping[str, pa.Array], row_count: int
) -> float | None:
    times = []
    for _ in range(2):
        started = time.process_time()
        try:
            evaluate_in_parts(tree, columns, row_count)
        except ProjsegError:
            return None
        times.append(time.process_time() - started)
    return min(times)


_Times = dict[str, float]
_Engine = Callable[[str], pa.Table | None]


def _measured(
    bench: Bench, case: FunctionCase, role: str, engines: dict[str, _Engine]
) -> dict[str, float]:
    """Return the time of each engine that answers, in ms for a million rows; compare answers."""
    statement = _statement(case, role)
    times: dict[str, float] = {}
    answers: dict[str, pa.Table] = {}
    for way, answer in engines.items():
        took = []
        for _ in range(bench["rounds"]):
            KEPT.clear()
            started = _processor_seconds(way)
            found = answer(statement)
            took.append(_processor_seconds(way) - started)
            if found is None:
                break
            answers[way] = found
        if way in answers:
            times[way] = 1000 * min(took) / bench["rows"] * 10**6
        elif way == "projseg":
            return {}
    for way in [*answers][1:]:
        difference = _difference(case, statement, answers["projseg"], answers[way], way)
        if difference is not None:
            bench.problems.append(f"differs: {way}, {statement}: {difference}")
    return times


def _statement(case: FunctionCase, role: str) -> str:
    if case.type is None:
        return _PLAIN.format(case.text)
    if role == "filter":
        condition = _CONDITIONS.get(case.type, "{0} > 10").format(f"({case.text})")
        return _ROLES[role].format(condition)
    return _ROLES[role].format(case.text)


def _difference(
    case: FunctionCase, statement: str, own: pa.Table, other: pa.Table, way: str
) -> str | None:
    """Return how the answer of a peer differs where both are to be equal."""
    if case.function in _APPROXIMATE:
        return None
    if way == "duckdb" and _OTHERWISE_IN_DUCKDB.match(case.text):
        return None
    question = Question(statement, columns=tuple(own.column_names))
    try:
        return find_difference(normalised(own, question), normalised(other, question), question)
    except pa.ArrowInvalid as error:
        return str(error)


def _add_summary(bench: Bench, found: dict[tuple[str, str], dict[str, float]]) -> None:
    """Add how many calls are slow, alone and beside each peer, and the worst.

    What raises over all rows, as an overflow does, is refused.
    """
    own = {key: times["projseg"] for key, times in found.items() if times}
    summary: dict[str, Any] = {"calls": len(own), "refused": len(found) - len(own)}
    for limit in _LIMITS_MS:
        summary[f"above {limit} ms"] = sum(ms > limit for ms in own.values())
    for peer in bench.peers:
        ratios = [took / found[key][peer] for key, took in own.items() if found[key].get(peer)]
        summary[f"answered by {peer}"] = len(ratios)
        for times in _RATIOS:
            summary[f"above {times} of {peer}"] = sum(ratio > times for ratio in ratios)
    enabled, plain = "projseg-spark-sql", "projseg-spark-plain"
    pairs = [times for times in found.values() if enabled in times and plain in times]
    if pairs:
        slower = sum(times[enabled] > _NOISE * times[plain] for times in pairs)
        summary[f"{enabled} above {_NOISE} of {plain}"] = slower
    bench.add("summary", f"{bench['rows']:,} rows", "projseg", summary)
    for role, text in sorted(own, key=own.__getitem__, reverse=True)[:_WORST]:
        for way, ms in found[role, text].items():
            bench.add("worst", f"{role}: {text}", way, {_MEASURE: ms})


def _processor_seconds(way: str) -> float:
    """Return the processor time of an engine, which for Spark is of other processes."""
    if way in ("projseg", "duckdb"):
        return time.process_time()
    import psutil  # of the extra [bench]

    used = [child.cpu_times() for child in psutil.Process().children(recursive=True)]
    return float(sum(one.user + one.system for one in used))


def _answer(table: projseg.Table, statement: str) -> pa.Table | None:
    try:
        return table.sql(statement)
    except ProjsegError as error:
        if error.code == "PROJSEG_INTERNAL":
            raise
        return None


def _loaded(location: Path, rows: pa.Table) -> projseg.Table:
    table = projseg.Table.create(location, rows.schema)
    table.append(rows)
    return table


def _duckdb(bench: Bench, rows: pa.Table, stack: ExitStack) -> _Engine:
    import duckdb  # of the extra [bench]

    connection = duckdb.connect()
    stack.callback(connection.close)
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET threads = 2")
    connection.register("arriving", rows)
    connection.execute("CREATE TABLE data AS SELECT * FROM arriving")

    def answer(statement: str) -> pa.Table | None:
        try:
            text = sqlglot.transpile(statement, "spark", "duckdb", unsupported_level=_REFUSED)[0]
            return connection.sql(text).to_arrow_table()
        except (duckdb.Error, sqlglot.errors.SqlglotError, pa.ArrowException):
            return None

    return answer


def _parquet_in_spark(bench: Bench, rows: pa.Table, stack: ExitStack) -> _Engine:
    path = bench.folder / "data.parquet"
    pq.write_table(rows, path)
    session = local_session(bench.folder, 2, lambda builder: builder)
    stack.callback(session.stop)
    session.read.parquet(str(path)).createOrReplaceTempView("data")
    return lambda statement: _spark_answer(session, statement)


def _table_in_spark(is_enabled: str, bench: Bench, rows: pa.Table, stack: ExitStack) -> _Engine:
    """Return the table in a session with the extension, which is enabled or not."""
    session = local_session(bench.folder, 2, projseg.configure)
    stack.callback(session.stop)
    projseg.register(session)
    stored = session.read.format("projseg").load(str(bench.folder / "data"))
    stored.createOrReplaceTempView("stored")

    def answer(statement: str) -> pa.Table | None:
        session.conf.set("spark.projseg.enabled", is_enabled)
        return _spark_answer(session, statement.replace(" FROM data", " FROM stored"))

    return answer


def _spark_answer(session: Any, statement: str) -> pa.Table | None:
    from pyspark.errors import PySparkException

    try:
        found: pa.Table = session.sql(statement).toArrow()
    except PySparkException:
        return None
    return found


_PEERS: Final[dict[str, Callable[[Bench, pa.Table, ExitStack], _Engine]]] = {
    "duckdb": _duckdb,
    "spark-parquet": _parquet_in_spark,
    "projseg-spark-sql": partial(_table_in_spark, "true"),
    "projseg-spark-plain": partial(_table_in_spark, "false"),
}
"""Those of projseg's table in Spark are with the extension enabled, and not."""
