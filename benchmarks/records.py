"""What a run measured, as typed records with one JSON form."""

from __future__ import annotations

import statistics
from pathlib import Path

import msgspec

from projseg.errors import InvalidInputError

__all__ = [
    "Bandwidth",
    "ColumnStorage",
    "EngineRun",
    "Environment",
    "Ingest",
    "QueryText",
    "Run",
    "Timing",
    "Work",
    "load_run",
    "save_run",
]

RECORD_VERSION = 2  # 1: one answer a turn


class Environment(msgspec.Struct, frozen=True):
    """The machine, the libraries and the commit that produced the figures."""

    started: str  # ISO 8601, UTC
    commit: str | None  # None outside a checkout
    has_local_changes: bool
    cpu: str
    cpu_count: int
    memory_bytes: int
    system: str
    python: str
    versions: dict[str, str]  # of the libraries that are installed


class Bandwidth(msgspec.Struct, frozen=True):
    """Memory bandwidth with the run's number of threads, bytes/s."""

    read_bytes_per_second: float
    copy_bytes_per_second: float  # bytes read plus bytes written


class Work(msgspec.Struct, frozen=True):
    """What an engine says that one query read."""

    rows: int
    bytes: int
    sources: dict[str, int] = {}  # segments by what answered them; peers leave it empty


class Ingest(msgspec.Struct, frozen=True):
    """Loading all rows once, into an empty place."""

    seconds: float
    settle_seconds: float  # what the engine does once before it is measured, such as merging parts
    peak_bytes: int | None  # of the process and its children, without mapped files
    base_bytes: int
    projection_bytes: int

    @property
    def stored_bytes(self) -> int:
        """All bytes on disk."""
        return self.base_bytes + self.projection_bytes


class Timing(msgspec.Struct):
    """One query on one engine."""

    cold_ms: float | None = None  # first time in a fresh process, files out of the page cache
    warm_ms: list[float] = []  # one for each round that counts
    warm_cpu_ms: list[float] = []  # likewise, of all threads; says more than time on a busy machine
    answer_rows: int | None = None
    peak_bytes: int | None = None
    work: Work | None = None
    agrees: bool | None = None  # with the reference engine
    difference: str | None = None  # the first one found
    approximation_error: float | None = None  # largest relative error of approximate columns
    failure: str | None = None
    is_applicable: bool = True

    @property
    def median_ms(self) -> float | None:
        """Median of the warm rounds."""
        return statistics.median(self.warm_ms) if self.warm_ms else None

    @property
    def median_cpu_ms(self) -> float | None:
        """Median processor time of the warm rounds; None for engines that run in a JVM."""
        return statistics.median(self.warm_cpu_ms) if self.warm_cpu_ms else None

    @property
    def minimum_ms(self) -> float | None:
        """Fastest of the warm rounds."""
        return min(self.warm_ms, default=None)


class EngineRun(msgspec.Struct):
    """One engine in one run; `missing` says why it could not take part."""

    name: str
    title: str
    is_peer: bool
    runs_on_spark: bool = False
    has_projections: bool = True  # of ours: an engine without them has no target where they help
    version: str | None = None
    missing: str | None = None
    ingest: Ingest | None = None
    start_ms: float | None = None  # a fresh process until the table is open
    timings: dict[str, Timing] = {}

    @property
    def query_peak_bytes(self) -> int | None:
        """Largest memory of the process and its children at any query's first run."""
        return max(
            (timing.peak_bytes for timing in self.timings.values() if timing.peak_bytes),
            default=None,
        )


class QueryText(msgspec.Struct, frozen=True):
    """A query of the run, to be read by people."""

    name: str
    statement: str
    covered_by: str | None
    is_row_scan: bool = False


class ColumnStorage(msgspec.Struct, frozen=True):
    """One column of one data set: stored bytes and decoding speed, here and in Parquet."""

    rows_of: str
    column: str
    arrow_bytes: int
    parquet_bytes: int
    parquet_decode_bytes_per_second: float
    segment_bytes: int | None
    segment_decode_bytes_per_second: float | None
    encodings: str


class Run(msgspec.Struct):
    """Everything one `bench run` measured."""

    environment: Environment
    bandwidth: Bandwidth
    row_count: int
    seed: int
    rounds: int
    thread_count: int
    queries: list[QueryText]
    engines: list[EngineRun]
    reference: str | None = None  # the engine that the answers are compared with
    columns: list[ColumnStorage] = []
    workload: str = "edits"
    answers_per_turn: int = 1  # at most; a round's time is the median of those that count
    format_version: int = RECORD_VERSION

    @property
    def present(self) -> list[EngineRun]:
        """The engines that took part."""
        return [engine for engine in self.engines if engine.missing is None]

    @property
    def has_wrong_answers(self) -> bool:
        """Whether an engine failed at a query, or gave another answer than the reference."""
        timings = (timing for engine in self.present for timing in engine.timings.values())
        return any(timing.failure or timing.agrees is False for timing in timings)

    def engine(self, name: str) -> EngineRun | None:
        """Return the engine of this name, if it took part."""
        return next((engine for engine in self.present if engine.name == name), None)

    def timing(self, engine: str, query: str) -> Timing | None:
        """Return the timing of one query on one engine."""
        found = self.engine(engine)
        return found.timings.get(query) if found else None

    def best_peer(self, query: str) -> tuple[str, float] | None:
        """Return the peer with the smallest median for a query, and that median in milliseconds."""
        medians = [
            (timing.median_ms, engine.name)
            for engine in self.present
            if engine.is_peer
            and (timing := engine.timings.get(query)) is not None
            and timing.median_ms is not None
        ]
        if not medians:
            return None
        median, name = min(medians)
        return name, median


def save_run(run: Run, path: Path) -> None:
    """Write a run as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1) + b"\n")


def load_run(path: Path) -> Run:
    """Read a run that `save_run` wrote.

    Raises
    ------
    InvalidInputError
        If the file is missing, is not such JSON, or has a later format version.
    """
    try:
        run = msgspec.json.decode(path.read_bytes(), type=Run)
    except OSError as error:
        raise InvalidInputError("PROJSEG_BAD_ARGUMENT", f"cannot read {path}: {error}") from error
    except msgspec.MsgspecError as error:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT", f"{path} is not a result of `projseg bench run`: {error}"
        ) from error
    if run.format_version > RECORD_VERSION:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"{path} has form {run.format_version}, this release reads up to {RECORD_VERSION}",
        )
    return run
