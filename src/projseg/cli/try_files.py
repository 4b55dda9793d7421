"""The verb `try`: a stranger's own files, with projections chosen for them, and compared."""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import pyarrow as pa
import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable
from rich.text import Text

import projseg
from projseg.catalog.external.input_columns import SKIP, BadLines, table_schema
from projseg.catalog.external.input_files import Sources
from projseg.catalog.external.text_blocks import STDIN
from projseg.cli.demo import remove_earlier, tell
from projseg.cli.duckdb_files import DuckDBFiles, agree, is_installed
from projseg.cli.file_options import FileForm, Files, GivenForm
from projseg.cli.guessed_questions import GuessedQuestion, TimeGuess, guessed_questions, time_of
from projseg.cli.output import (
    OutputFormat,
    chosen_format,
    print_rows,
    shown_progress,
    size_text,
    terminal,
)
from projseg.cli.shared_arguments import Output
from projseg.errors import InvalidInputError, ProjsegError
from projseg.segment_format.logical_types import TIMESTAMP_NTZ

FOLDER: Final = "projseg-try"
TRIED: Final = "projseg try"
_PEEKED_ROWS: Final = 200_000
_BYTES_MAX: Final = 2_000_000_000
_SEGMENT_ROWS: Final = 1_000_000
_RUNS: Final = 3
_WEIGHT: Final = 100
_BAD_SHOWN: Final = 3
_BAD_MIN: Final = 1000
_BAD_SHARE: Final = 0.1
_ADVICE_SECONDS: Final = 15.0
_DUCKDB_SECONDS: Final = 20.0
_BAR_WIDTH: Final = 16
_WIDTH: Final = 80


class _NotedLines(BadLines):
    """Leaves bad lines out, and knows what was wrong with the first."""

    def __init__(self) -> None:
        super().__init__(SKIP)
        self.notes: list[str] = []
        self.row_count = 0

    @property
    def lines_text(self) -> str:
        """How many lines."""
        return "1 line was" if self.count == 1 else f"{self.count:,} lines were"

    def add(self, path: str, number: int, line: bytes, reason: str) -> None:
        super().add(path, number, line, reason)
        if len(self.notes) < _BAD_SHOWN:
            self.notes.append(f"{path}, line {number}: {reason}")
        if self.count > max(_BAD_MIN, _BAD_SHARE * self.row_count):
            raise InvalidInputError(
                "PROJSEG_BAD_INPUT_FILE",
                f"{self.count:,} lines are no rows, {self.notes[0]}; nothing was loaded",
            )


class _Load(NamedTuple):
    """What was loaded, and of what."""

    table: projseg.Table
    peeked: pa.Table
    time: TimeGuess
    bad: _NotedLines
    is_sample: bool
    read_bytes: int
    seconds: float


class _Measured(NamedTuple):
    """One question's times and bytes, and whether the answers are the same."""

    question: GuessedQuestion
    base_ms: float
    base_bytes: int
    ms: float
    bytes: int
    source: str
    is_same: bool
    duckdb_ms: float | None = None
    agrees: bool | None = None


def try_files(
    files: Files,
    *,
    file_form: GivenForm,
    time_column: Annotated[str | None, "The column of times; default: guessed."] = None,
    budget: Annotated[str, "What projections may take, as a share of the rows' bytes."] = "10%",
    location: Annotated[
        str | None, "Keep the table here; default: projseg-try, in place of an earlier one."
    ] = None,
    output: Output = None,
) -> None:
    """Load your own files, let the advisor choose projections, and show what they win.

    Questions are made of the columns: few different values are groups, numbers are sums. If DuckDB
    is installed, it is asked the same over the same files. The table stays.
    """
    if STDIN in files:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", "try reads files twice, which standard input cannot; name files"
        )
    where = location or FOLDER
    if location is None:
        remove_earlier(Path(FOLDER), TRIED)
    elif projseg.is_table(location):
        raise InvalidInputError(
            "PROJSEG_TABLE_EXISTS", f"'{location}' holds a table; name another place"
        )
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with shown_progress(*columns) as progress:
        steps = _Steps(progress)
        sources = Sources(files, file_form.kind, file_form.texts)
        loaded = _loaded(sources, where, file_form, time_column, steps)
        questions = _questions(loaded)
        _advised(loaded.table, questions, budget, steps)
        results = []
        for place, question in enumerate(questions, 1):
            results.append(_asked_both(loaded.table, question))
            steps.at("asking", place, len(questions))
        results, why_not = _compared(loaded, sources.paths, file_form, results, steps)
    _show(loaded, sources, results, why_not, output)
    if not all(one.is_same for one in results):
        tell("an answer from projections differs from the rows' answer: this is a bug")
        raise typer.Exit(1)


class _Steps:
    """Lines of a display of progress, one for each step."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}

    def at(self, step: str, done: float, count: float | None) -> None:
        """Show how much of a step is done."""
        if step not in self._tasks:
            self._tasks[step] = self._progress.add_task(step, total=count)
        self._progress.update(self._tasks[step], completed=done, total=count)


# ---- loading


def _loaded(
    sources: Sources, where: str, form: FileForm, time_column: str | None, steps: _Steps
) -> _Load:
    start = time.perf_counter()
    schema, peeked, guess, form = _peeked(sources, form, time_column)
    try:
        return _written(sources, where, schema, peeked, guess, steps, start)
    except ProjsegError as error:
        if error.code != "PROJSEG_NULL_TIME" or time_column is not None:
            raise
        tell(f"column '{guess.column}' is empty in some rows, so it is no time column here")
        shutil.rmtree(where, ignore_errors=True)
        return _written(sources, where, schema, peeked, TimeGuess(None), steps, start)


def _peeked(
    sources: Sources, form: FileForm, time_column: str | None
) -> tuple[pa.Schema, pa.Table, TimeGuess, FileForm]:
    """Return the table's columns, some rows of the first file, and the column of times."""
    schema = table_schema(sources.schema, form.types, time_column)
    peeked = _rows(sources, schema)
    guess = time_of(peeked) if time_column is None else TimeGuess(time_column)
    if guess.column is not None and schema.field(guess.column).type == TIMESTAMP_NTZ:
        # Times without a zone are taken for those of UTC: buckets are then plain ones.
        schema = table_schema(sources.schema, [*form.types, f"{guess.column}=timestamp"], None)
    elif guess.column is not None and pa.types.is_string(schema.field(guess.column).type):
        schema = table_schema(sources.schema, form.types, guess.column)
        peeked = _rows(sources, schema)
    if guess.unit:
        values = replace(form.texts.values, time_unit=guess.unit)
        form = form._replace(
            types=[*form.types, f"{guess.column}=timestamp"],
            texts=replace(form.texts, values=values),
        )
        sources.reads(form.texts)
        schema = table_schema(sources.schema, form.types, guess.column)
        peeked = _rows(sources, schema)
    return schema, peeked, guess, form


def _rows(sources: Sources, schema: pa.Schema) -> pa.Table:
    found, count = [], 0
    with suppress(StopIteration):
        for batch in sources.rows(schema, _NotedLines(), lambda _: None):
            found.append(batch)
            count += batch.num_rows
            if count >= _PEEKED_ROWS:
                break
    return pa.Table.from_batches(found, schema)


def _written(
    sources: Sources,
    where: str,
    schema: pa.Schema,
    peeked: pa.Table,
    guess: TimeGuess,
    steps: _Steps,
    start: float,
) -> _Load:
    bad, read = _NotedLines(), 0
    total = sources.byte_count or 0

    def advance(byte_count: int) -> None:
        nonlocal read
        read += byte_count
        steps.at("reading", read, min(total, _BYTES_MAX))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in sources.rows(schema, bad, advance):
            bad.row_count += batch.num_rows
            yield batch
            if read >= _BYTES_MAX:
                return

    steps.at("reading", 0, total)
    table = projseg.Table.create(
        where,
        schema,
        time_column=guess.column,
        target_segment_rows=_SEGMENT_ROWS,
        properties={"madeBy": TRIED},
        data=pa.RecordBatchReader.from_batches(schema, batches()),
    )
    is_sample = read >= _BYTES_MAX and read < total
    steps.at("reading", 1, 1)
    return _Load(table, peeked, guess, bad, is_sample, read, time.perf_counter() - start)


# ---- asking


def _questions(loaded: _Load) -> list[GuessedQuestion]:
    if not loaded.table.snapshot.row_count:
        raise InvalidInputError("PROJSEG_BAD_INPUT_FILE", "the files hold no rows; name others")
    entries = list(loaded.table.snapshot.segments)
    times = [
        moment
        for one in entries
        for moment in (one.min_time_us, one.max_time_us)
        if moment is not None
    ]
    span = max(times) - min(times) if times else None
    guessed = guessed_questions(loaded.peeked, loaded.time.column, span)
    return [one for one in guessed if _is_answered(loaded.table, one)]


def _is_answered(table: projseg.Table, question: GuessedQuestion) -> bool:
    """Whether a question has an answer: sums of large numbers may have none."""
    try:
        table.sql(question.sql())
    except ProjsegError:
        return False
    return True


def _advised(
    table: projseg.Table, questions: Sequence[GuessedQuestion], budget: str, steps: _Steps
) -> None:
    # Imported here: other verbs start without the advisor.
    from projseg.advisor.measured_workload import WeightedQuery, measured_workload

    steps.at("choosing projections", 0, None)
    asked = [WeightedQuery(question.sql(), _WEIGHT) for question in questions]
    advice = projseg.advise(
        table, measured_workload(table, asked), budget=budget, seconds=_ADVICE_SECONDS
    )
    steps.at("choosing projections", 1, 1)
    advice.apply(
        table, on_progress=lambda done, count: steps.at("building projections", done, count)
    )


def _asked_both(table: projseg.Table, question: GuessedQuestion) -> _Measured:
    text = question.sql()
    base, base_ms = _timed(table, text, {"noProjections": True})
    found, milliseconds = _timed(table, text, None)
    own, rows = table.explain(text), table.explain(text, context={"noProjections": True})
    source = max(own.sources, key=lambda name: own.sources[name], default="metadata")
    return _Measured(
        question,
        base_ms,
        rows.figures.bytes,
        milliseconds,
        own.figures.bytes,
        source,
        agree(base, found),
    )


def _timed(
    table: projseg.Table, text: str, context: Mapping[str, Any] | None
) -> tuple[pa.Table, float]:
    """Return an answer, and the best of several times in milliseconds, after a first one."""
    answer = table.sql(text, context=context)
    times = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        table.sql(text, context=context)
        times.append((time.perf_counter() - start) * 1000)
    return answer, min(times)


def _compared(
    loaded: _Load,
    paths: Sequence[str],
    form: FileForm,
    results: Sequence[_Measured],
    steps: _Steps,
) -> tuple[list[_Measured], str]:
    """Return the results beside DuckDB's over the same files, or why not."""
    if not is_installed():
        return list(results), "DuckDB is not installed: pip install duckdb compares with it"
    reason = _not_comparable(loaded)
    if reason:
        return list(results), f"not compared with DuckDB: {reason}"
    try:
        engine = DuckDBFiles(paths, form, loaded.table.schema)
    except Exception as error:  # noqa: BLE001 - what the other engine raises is its own
        return list(results), f"not compared with DuckDB: {_short(error)}"
    found: list[_Measured] = []
    start, why = time.perf_counter(), ""
    for place, one in enumerate(results):
        steps.at("asking DuckDB over the files", place, len(results))
        if why or time.perf_counter() - start > _DUCKDB_SECONDS:
            found.append(one)
            continue
        try:
            theirs, milliseconds = engine.ask(one.question.duckdb_sql(engine.source))
        except Exception as error:  # noqa: BLE001 - as above
            why = f"DuckDB does not read the files so: {_short(error)}"
            found.append(one)
            continue
        ours = loaded.table.sql(one.question.sql())
        found.append(one._replace(duckdb_ms=milliseconds, agrees=agree(ours, theirs)))
    steps.at("asking DuckDB over the files", len(results), len(results))
    engine.close()
    return found, why


def _not_comparable(loaded: _Load) -> str:
    if loaded.is_sample:
        return "only a sample was loaded"
    if loaded.bad.count:
        return f"{loaded.bad.lines_text} left out"
    return "times are numbers in the files" if loaded.time.unit else ""


def _short(error: Exception) -> str:
    return str(error).split("\n", 1)[0][:120]


# ---- the screen


def _show(
    loaded: _Load,
    sources: Sources,
    results: Sequence[_Measured],
    why_not: str,
    output: OutputFormat | None,
) -> None:
    if chosen_format(output) is OutputFormat.TABLE:
        console = terminal()
        console.width = min(console.width, _WIDTH)
        console.print(_picture(results))
    else:
        print_rows([_row(one) for one in results], output)
    for note in (*sources.notes, *_notes(loaded), *_verdicts(results, why_not)):
        tell(note)
    tell(_commands(loaded.table, results))


def _picture(results: Sequence[_Measured]) -> RichTable:
    """Return the milliseconds of each question from rows, projections and files, as bars.

    The longest bar is of rows or projections; a bar of DuckDB that passes it ends in an arrow.
    """
    slowest = max((max(one.base_ms, one.ms) for one in results), default=1.0)
    table = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("question", no_wrap=True, max_width=30, overflow="ellipsis")
    table.add_column("", no_wrap=True)
    for name in ("ms", "bytes", "won"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in results:
        won = f"{one.base_ms / max(one.ms, 0.1):.0f}x" if one.base_ms > one.ms else ""
        lines = [
            (f"{one.question.title}: rows", one.base_ms, size_text(one.base_bytes), "", "white"),
            (f"  {one.source}", one.ms, size_text(one.bytes), won, "green"),
        ]
        if one.duckdb_ms is not None:
            lines.append(("  DuckDB over the files", one.duckdb_ms, "", "", "yellow"))
        for label, milliseconds, size, gain, style in lines:
            bar = Text(_bar(milliseconds / max(slowest, 0.1)), style=style)
            table.add_row(Text(label), bar, f"{milliseconds:,.1f}", size, gain)
    return table


def _bar(share: float) -> str:
    if share > 1:
        return "█" * (_BAR_WIDTH - 1) + "▶"
    return "█" * max(1, round(_BAR_WIDTH * share))


def _row(one: _Measured) -> dict[str, Any]:
    return {
        "question": one.question.title,
        "sql": one.question.sql(),
        "rows_ms": round(one.base_ms, 1),
        "rows_bytes": one.base_bytes,
        "ms": round(one.ms, 1),
        "bytes": one.bytes,
        "source": one.source,
        "same_answer": one.is_same,
        "duckdb_ms": None if one.duckdb_ms is None else round(one.duckdb_ms, 1),
        "duckdb_agrees": one.agrees,
    }


def _notes(loaded: _Load) -> Iterator[str]:
    snapshot = loaded.table.snapshot
    share = sum(one.byte_count for entry in snapshot.segments for one in entry.projections)
    count = len(snapshot.properties.projections)
    base = sum(zone.bytes for entry in snapshot.segments for zone in entry.columns.values())
    of_files = f"the first {size_text(loaded.read_bytes)} of the files" * loaded.is_sample
    yield (
        f"loaded {snapshot.row_count:,} rows {f'({of_files}) ' if of_files else ''}in "
        f"{loaded.seconds:.1f} s: {size_text(base)}, and {count} "
        f"projection{'s' * (count != 1)} of {size_text(share)} ({share / max(base, 1):.1%})"
    )
    if loaded.time.column is None:
        yield "no column of times was found; --time-column and --time-format name one"
    else:
        yield f"the column of times is {loaded.time.column}"
    if loaded.bad.count:
        yield f"{loaded.bad.lines_text} left out, such as"
        yield from (f"  {note}" for note in loaded.bad.notes)


def _verdicts(results: Sequence[_Measured], why_not: str) -> Iterator[str]:
    compared = [one for one in results if one.agrees is not None]
    differing = [one for one in compared if not one.agrees]
    if compared and not differing:
        yield f"DuckDB's answers to {len(compared)} questions are the same"
    for one in differing:
        yield f"DuckDB's answer differs: {one.question.sql()}"
    if why_not:
        yield why_not


def _commands(table: projseg.Table, results: Sequence[_Measured]) -> str:
    """Return three commands that go on with the table."""
    place = shlex.quote(table.location)
    with suppress(ValueError):
        place = shlex.quote(str(Path(table.location).relative_to(Path.cwd())))
    plain = [one.question for one in results if not any(unit for unit, _ in one.question.keys)]
    chosen = [*plain, *(one.question for one in results)]
    statement = _in_shell(chosen[0].sql() if chosen else "SELECT count(*) FROM t")
    return (
        f"the table is kept in {place}; go on with:\n\n"
        f"  projseg sql {place} {statement}\n"
        f"  projseg explain {place} {statement}\n"
        f"  projseg projections {place}\n"
    )


def _in_shell(statement: str) -> str:
    """Return a statement as a word of a shell, in double quotes where that is all it takes."""
    is_plain = not set(statement) & set('"$`\\!')
    return f'"{statement}"' if is_plain else shlex.quote(statement)
