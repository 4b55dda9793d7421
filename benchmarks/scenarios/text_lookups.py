"""What indexes of words and of runs of characters spare: conditions on texts, beside other engines.

The other engines, DuckDB over Parquet and ClickHouse, take rows that come in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import projseg
from projseg.benchmarks import generator
from projseg.benchmarks.bench import Bench, measured
from projseg.memory.cache import KEPT

_HOUR_US: Final = 3_600_000_000
_PIECE_SEGMENTS: Final = 10
_LOADED_ROWS: Final = 400_000  # of the tables whose loading is compared
_SERVICES: Final = ("cart", "search", "billing", "profile", "images", "orders", "login", "mail")
_VERBS: Final = ("GET", "PUT", "POST", "DELETE")
_TITLES: Final = 100_000
_ASKED: Final = 5
_WORD: Final = "text_match("  # all that tantivy answers
_TITLE_INDEXES: Final = (
    projseg.Index("words", "title", kind="token"),
    projseg.Index("parts", "title", kind="ngram"),
)
_INDEXES: Final = (
    projseg.Index("words", ["title", "message"], kind="token"),
    projseg.Index("parts", ["title", "message"], kind="ngram"),
)
_LOADED: Final[dict[str, tuple[projseg.Index, ...]]] = {
    "no index": (),
    "bloom": (projseg.Index("values", "title"),),
    "token": _TITLE_INDEXES[:1],
    "ngram": _TITLE_INDEXES[1:],
    "ngram without postings": (projseg.Index("parts", "title", kind="ngram", postings=False),),
    "token and ngram": _TITLE_INDEXES,
}


class _Case(NamedTuple):
    """Conditions of one form, each with another key: in projseg's words, and in the peers'."""

    name: str
    conditions: list[str]
    duckdb: list[str]
    clickhouse: list[str]

    def words_of(self, way: str) -> list[str]:
        """Return the conditions as an engine reads them."""
        return {"duckdb-parquet": self.duckdb, "clickhouse": self.clickhouse}.get(
            way, self.conditions
        )


def add_texts(bench: Bench) -> None:
    """Add the figures of texts: loading, answers with and without indexes, and other engines'."""
    count, rows = bench["text_segments"], bench["text_rows"]
    _add_loading(bench, min(_LOADED_ROWS, count * rows))
    bench.progress(f"{count:,} segments of texts")
    table = _written_table(bench.folder / "texts", _pieces(count, rows), _INDEXES)
    for row in table.indexes().to_pylist():
        size = {key: row[key] for key in ("bloom_bytes", "postings_bytes", "keys")}
        bench.add("size of text indexes", f"{row['column']}, {row['kind']}", "projseg", size)
    cases = _cases(count * rows)
    known: dict[str, list[int]] = {}
    for way, context in (("index", {}), ("no index", {"noIndexes": True})):
        KEPT.clear()
        ask = partial(_count, table, context=context)
        _ask_cases(bench, way, cases, ask, known)
    for case in cases:
        done = {"rows": known[case.name][0], **_segments_of(table, case.conditions[0])}
        bench.add("segments of a text condition", case.name, "projseg", done)
    for name in bench.names("peers"):
        if name in _PEERS:
            bench.progress(f"texts in {name}")
            bench.peers.append(name)
            count_by_peer = _PEERS[name](bench, _pieces(count, rows))
            wanted = [c for c in cases if name != "tantivy" or c.conditions[0].startswith(_WORD)]
            _ask_cases(bench, name, wanted, count_by_peer, known)


def _count(table: projseg.Table, condition: str, context: dict[str, Any]) -> int:
    asked = table.query(aggregators="count(*) AS n", filter=condition, context=context)
    return int(asked["n"][0].as_py())


def _segments_of(table: projseg.Table, condition: str) -> dict[str, int]:
    """Return how many segments are opened, and answered by postings."""
    explained = table.explain(aggregators="count(*) AS n", filter=condition, analyze=True)
    uses = [use for use in explained.indexes.to_pylist() if use["reason"] != "NO_KEY"]
    by_postings = max([use["postings_segments"] or 0 for use in uses], default=0)
    return {"opened": explained.figures.opened_segments, "by postings": by_postings}


def _add_loading(bench: Bench, row_count: int) -> None:
    """Load titles with each kind of index, and with none: the least of three turns each."""
    rows = 20_000
    pieces = [piece.select(["time", "title", "n"]) for piece in _pieces(row_count // rows, rows)]
    least: dict[str, float] = {}
    for turn in range(4):
        for way, indexes in _LOADED.items():
            bench.progress(f"loading titles: {way}")
            with measured() as spent:
                _written_table(
                    bench.folder / f"{way} {turn}".replace(" ", "-"), iter(pieces), indexes
                )
            if turn:
                least[way] = min(spent["cpu s"], least.get(way, spent["cpu s"]))
    for way, took in least.items():
        ratio = took / least["no index"]
        bench.add("loading titles", f"{row_count:,} rows", way, {"ratio": ratio, "cpu s": took})


def _written_table(
    location: Path, pieces: Iterator[pa.Table], indexes: tuple[projseg.Index, ...]
) -> projseg.Table:
    schema = {"time": "timestamp", "title": "string", "message": "string", "n": "int"}
    table: projseg.Table | None = None
    for piece in pieces:
        if table is None:
            table = projseg.Table.create(
                location,
                {name: schema[name] for name in piece.column_names},
                time_column="time",
                segment_granularity="hour",
                indexes=list(indexes),
            )
        table.append(piece)
    assert table is not None
    return table


def _pieces(count: int, rows: int) -> Iterator[pa.Table]:
    """Yield `count` hours of `rows` rows each, some hours at a time."""
    titles = generator.pages().slice(0, _TITLES)
    for first in range(0, count, _PIECE_SEGMENTS):
        end = min(first + _PIECE_SEGMENTS, count)
        numbers = np.arange(first * rows, end * rows)
        draw = np.random.default_rng(first)
        ranks = (_TITLES ** draw.random(len(numbers))).astype(np.int64) - 1
        yield pa.table(
            {
                "time": pa.array(
                    numbers // rows * _HOUR_US + numbers % rows, pa.timestamp("us", tz="UTC")
                ),
                "title": titles.take(pa.array(ranks)),
                "message": list(
                    map(
                        _message, numbers.tolist(), draw.integers(0, 1 << 31, len(numbers)).tolist()
                    )
                ),
                "n": pa.array(numbers % 1000, pa.int32()),
            }
        )


def _message(number: int, drawn: int) -> str:
    service, verb = _SERVICES[drawn % 8], _VERBS[drawn // 8 % 4]
    trouble = "timeout" if drawn // 32 % 300 == 0 else "done"
    return (
        f"{verb} /{service}/{drawn // 64 % 5000} {trouble} after {drawn // 7 % 900} ms, "
        f"request {_request(number)} from 10.{drawn % 200}.{drawn // 200 % 250}.7"
    )


def _request(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"


def _cases(row_count: int) -> list[_Case]:
    """Return the conditions; words and parts are in at most 1 % of the values."""
    titles = sorted(
        {word for title in generator.pages().slice(0, 400).to_pylist() for word in title.split()}
    )
    plain = [word for word in titles if word.isascii() and word.isalpha() and len(word) >= 6]
    words = plain[:: max(1, len(plain) // _ASKED)][:_ASKED]
    parts = [word[-6:] for word in plain[1 :: max(1, len(plain) // _ASKED)][:_ASKED]]
    numbers = [row_count * step // (_ASKED + 1) for step in range(1, _ASKED + 1)]
    requests = [_request(number) for number in numbers]
    services = _SERVICES[:_ASKED]
    return [
        _words_case("a word of titles", "title", words),
        _words_case("a word of one message", "message", requests),
        _like_case("LIKE, six letters of titles", "title", parts),
        _like_case(
            "LIKE, eleven letters of one message", "message", [one[2:13] for one in requests]
        ),
        _Case(
            "RLIKE of messages",
            [f"message RLIKE '{one}.* timeout after 8[0-9]* ms'" for one in services],
            [f"regexp_matches(message, '{one}.* timeout after 8[0-9]* ms')" for one in services],
            [f"match(message, '{one}.* timeout after 8[0-9]* ms')" for one in services],
        ),
        _Case(
            "contains, two words of titles",
            [f"contains(title, '{one} ')" for one in words],
            [f"contains(title, '{one} ')" for one in words],
            [f"title LIKE '%{one} %'" for one in words],
        ),
    ]


def _words_case(name: str, column: str, words: list[str]) -> _Case:
    return _Case(
        name,
        [f"text_match({column}, '{word}')" for word in words],
        [
            f"regexp_matches({column}, '(?i)(^|[^a-zA-Z0-9]){word}($|[^a-zA-Z0-9])')"
            for word in words
        ],
        [f"hasToken(lower({column}), '{word.lower()}')" for word in words],
    )


def _like_case(name: str, column: str, parts: list[str]) -> _Case:
    texts = [f"{column} LIKE '%{part}%'" for part in parts]
    return _Case(name, texts, texts, texts)


def add_answers(
    bench: Bench,
    table: str,
    case: str,
    way: str,
    ask: Callable[[str], int],
    questions: Sequence[str],
) -> list[int]:
    """Ask each question after another, the last one first; add the medians, return the answers."""
    ask(questions[-1])
    spent, found = [], []
    for question in questions[:-1]:
        with measured() as one:
            found.append(ask(question))
        spent.append((one["cpu s"] * 1000, one["s"] * 1000))
    processor, wall = np.median(spent, axis=0)
    bench.add(table, case, way, {"cpu ms": float(processor), "ms": float(wall)})
    return found


def _ask_cases(
    bench: Bench,
    way: str,
    cases: list[_Case],
    ask: Callable[[str], int],
    known: dict[str, list[int]],
) -> None:
    """Ask the conditions of each case in an engine's words, and compare the answers."""
    for case in cases:
        table = "rows of a text condition, counted"
        found = add_answers(bench, table, case.name, way, ask, case.words_of(way))
        if found != known.setdefault(case.name, found):
            problem = f"{way}: {case.name} gave {found}, not {known[case.name]}"
            bench.problems.append(problem)


class ParquetFiles:
    """DuckDB over Parquet files that it writes to a new folder, one for each piece.

    Options are those of COPY, each with a comma before it.
    """

    def __init__(self, folder: Path, pieces: Iterable[pa.Table], options: str = "") -> None:
        import duckdb  # optional: extra [bench]

        self.connection = duckdb.connect()
        self.connection.execute("SET threads = 2")
        self._files = f"'{folder}/*.parquet'"
        folder.mkdir()
        for number, piece in enumerate(pieces):
            self.connection.register("piece", piece)
            copy = f"COPY piece TO '{folder}/{number}.parquet' (FORMAT parquet{options})"
            self.connection.execute(copy)

    def select(self, outputs: str, condition: str) -> list[tuple[Any, ...]]:
        """Return the rows that fulfil a condition."""
        text = f"SELECT {outputs} FROM {self._files} WHERE {condition}"
        return list(self.connection.execute(text).fetchall())


class ClickHouseTable:
    """A MergeTree table, in a new folder, ordered by time, whose parts are merged into one.

    Columns and indexes are as of CREATE TABLE.
    """

    def __init__(
        self, folder: Path, pieces: Iterable[pa.Table], columns: str, settings: str = ""
    ) -> None:
        from chdb import session  # optional and large: installed by hand

        library: Any = session  # chdb has no type hints
        self._session = library.Session(str(folder))
        self._session.query("CREATE DATABASE IF NOT EXISTS bench ENGINE = Atomic")
        self._session.query(
            f"CREATE TABLE bench.rows ({columns}) ENGINE = MergeTree ORDER BY time {settings}"
        )
        arriving = folder.with_suffix(".parquet")
        for piece in pieces:
            pq.write_table(piece, arriving)
            insert = f"INSERT INTO bench.rows SELECT * FROM file('{arriving}', 'Parquet')"
            self._session.query(insert)
        self._session.query("OPTIMIZE TABLE bench.rows FINAL")

    def select(self, outputs: str, condition: str) -> list[str]:
        """Return the rows that fulfil a condition, as lines of CSV."""
        text = f"SELECT {outputs} FROM bench.rows WHERE {condition}"
        return str(self._session.query(text, "CSV")).splitlines()


def _duckdb(bench: Bench, pieces: Iterator[pa.Table]) -> Callable[[str], int]:
    """Write Parquet files, which have no index of texts, and ask DuckDB."""
    files = ParquetFiles(bench.folder / "parquet-texts", pieces)
    return lambda condition: int(files.select("count(*)", condition)[0][0])


def _clickhouse(bench: Bench, pieces: Iterator[pa.Table]) -> Callable[[str], int]:
    """Fill a table with text indexes of words and of runs of three characters."""
    indexes = ", ".join(
        f"INDEX {column}_words lower({column}) TYPE text(tokenizer = 'splitByNonAlpha'), "
        f"INDEX {column}_parts {column} TYPE text(tokenizer = ngrams(3))"
        for column in ("title", "message")
    )
    columns = "time DateTime64(6, 'UTC'), title String, message String, n Int32"
    table = ClickHouseTable(bench.folder / "clickhouse-texts", pieces, f"{columns}, {indexes}")
    return lambda condition: int(table.select("count()", condition)[0])


def _tantivy(bench: Bench, pieces: Iterator[pa.Table]) -> Callable[[str], int]:
    """Index words by tantivy."""
    import tantivy  # optional: installed by hand

    library: Any = tantivy
    builder = library.SchemaBuilder()
    for column in ("title", "message"):
        builder.add_text_field(column, stored=False, tokenizer_name="default")
    folder = bench.folder / "tantivy"
    folder.mkdir()
    index = library.Index(builder.build(), path=str(folder))
    writer = index.writer(heap_size=200_000_000, num_threads=1)
    for piece in pieces:
        for title, message in zip(
            piece["title"].to_pylist(), piece["message"].to_pylist(), strict=True
        ):
            writer.add_document(library.Document(title=title, message=message))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def ask(condition: str) -> int:
        column, word = condition.removeprefix("text_match(").removesuffix("')").split(", '")
        query = library.Query.term_query(index.schema, column, word.lower())
        return int(searcher.search(query, limit=1, count=True).count)

    return ask


_PEERS: Final = {"duckdb-parquet": _duckdb, "clickhouse": _clickhouse, "tantivy": _tantivy}
