"""Once rows are committed, no failure of what follows makes the write raise: it would be repeated.

A trace function raises an error at the n-th call of any function of ours after the version's file
was created. `n` is drawn over all calls that a write makes from there on.
"""

import logging
import random
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from scale import tries

import projseg
from projseg import Table
from projseg.memory.cache import KEPT
from projseg.table_layer.commits import follow_up, publish
from projseg.table_layer.commits.follow_up import only_logged

ROOT = str(Path(projseg.__file__).resolve().parents[2])
PUBLISHED = publish.published.__code__
ERRORS = [
    *(MemoryError, RuntimeError, ValueError, KeyError, RecursionError, OSError, AssertionError),
    *(IndexError, AttributeError, TypeError, ZeroDivisionError, StopIteration, UnicodeError),
]
FOLLOWING = {
    "after_commit",
    "_refresh_views",
    "refresh_views",
    "refresh_after_commit",
    "keep_views",
}
"""What is called once a commit has returned; on the way back nothing is done that could fail."""
SQL = "SELECT p.word, count(*) AS n FROM f JOIN p ON f.k = p.k GROUP BY p.word"
OWN = "SELECT k, count(*) AS n FROM f GROUP BY k"


class Failing:
    """Raises `error` at the n-th call after a version was published; counts the calls."""

    def __init__(self, at=0, error=MemoryError):
        self.at, self.error = at, error
        self.count, self.is_armed, self.is_following, self.where = 0, False, False, None

    def __call__(self, frame, event, _):
        code = frame.f_code
        if code is PUBLISHED:
            return self._until_published
        name = code.co_filename
        if not self.is_armed or name == follow_up.__file__ or not name.startswith(ROOT):
            return None
        if "/tests/" in name or "/.venv/" in name or code.co_name == "<genexpr>":
            return None
        if code.co_name in FOLLOWING:
            self.is_following = True
            return None
        if not self.is_following:
            return None
        self.count += 1
        if self.count == self.at:
            self.where = f"{Path(name).name}:{code.co_name}"
            raise self.error("injected")
        return None

    def _until_published(self, _, event, made):
        if event == "return" and made is not None:
            self.is_armed = True
        return self._until_published


@contextmanager
def traced(failing):
    before = sys.gettrace()
    sys.settrace(failing)
    try:
        yield
    finally:
        sys.settrace(before)


def one(key="a"):
    return [{"k": key}]


def fact_of(folder, **options):
    return Table.create(folder / "f", {"k": "string"}, data=one(), **options)


def with_views(folder):
    fact = fact_of(folder)
    places = Table.create(folder / "p", {"k": "string", "word": "string"}, data=[{"k": "a"}])
    fact.create_view("star", SQL, tables={"f": fact, "p": places})
    fact.create_view("own", OWN)
    fact.append(one("b"))


def with_index(folder):
    fact = fact_of(folder, indexes=[projseg.Index("by_k", ["k"])])
    for _ in range(17):
        fact.append(one())


def with_policy(folder):
    fact = fact_of(folder, properties={"autoCompact": "true", "compactMinSegments": "3"})
    fact.append(one())


def appended(folder):
    return Table(folder / "f").append(one("z"))


def overwritten(folder):
    return Table(folder / "f").overwrite(one("z"))


def replaced(folder):
    return Table(folder / "f").overwrite(one("z"), filter="k = 'z'")


def deleted(folder):
    return Table(folder / "f").delete("k = 'b'")


def updated(folder):
    return Table(folder / "f").update({"k": "'z'"}, "k = 'b'")


def merged(folder):
    return Table(folder / "f").merge(one("z"), on=["k"])


def restored(folder):
    return Table(folder / "f").restore(0)


def of_dimension(folder):
    return Table(folder / "p").append([{"k": "z", "word": "z"}])


WRITES = {
    "views": (with_views, appended),
    "overwrite": (with_views, overwritten),
    "replace": (with_views, replaced),
    "delete": (with_views, deleted),
    "update": (with_views, updated),
    "merge": (with_views, merged),
    "restore": (with_views, restored),
    "dimension": (with_views, of_dimension),
    "policy": (with_policy, appended),
    "indexes": (with_index, appended),
}


def state(folder):
    """Return the rows of each table, and of the first as its views answer."""
    KEPT.clear()
    tables = {path.name: Table(path) for path in sorted(folder.iterdir())}
    rows = {name: sorted(map(repr, one.query().to_pylist())) for name, one in tables.items()}
    fact = tables["f"]
    assert sorted(map(str, fact.sql(OWN).to_pylist())) == sorted(
        map(str, fact.sql(OWN, context={"noViews": True}).to_pylist())
    )
    return rows


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WRITES)
def test_no_error_after_the_publication_leaves_a_write(tmp_path, name, caplog):
    prepare, write = WRITES[name]
    prepare(tmp_path / "sound")

    def run(failing):
        shutil.rmtree(tmp_path / "w", ignore_errors=True)
        shutil.copytree(tmp_path / "sound", tmp_path / "w")
        KEPT.clear()
        with traced(failing):
            made = write(tmp_path / "w")
        return made.version

    run(Failing())  # imports what is imported late
    whole = Failing()
    version = run(whole)
    wanted = state(tmp_path / "w")
    assert whole.count > 3
    random_ = random.Random(name)
    logged = 0
    first = range(1, 1 + min(tries(40), whole.count))
    later = [random_.randint(1, whole.count) for _ in range(tries(60))]
    for at in (*first, *later):
        failing = Failing(at, random_.choice(ERRORS))
        caplog.clear()
        found = run(failing)
        assert state(tmp_path / "w") == wanted, failing.where
        assert found <= version
        logged += "was committed" in caplog.text or "was restored" in caplog.text
    assert logged or whole.count < 100
    with_one_more = wanted["f"] + [repr({"k": "end"})]
    Table(tmp_path / "w" / "f").append(one("end"))
    assert state(tmp_path / "w")["f"] == sorted(with_one_more)


def test_an_interruption_is_logged_and_passes(caplog):
    with (
        pytest.raises(KeyboardInterrupt),
        only_logged(logging.getLogger("projseg.table"), lambda: "version 3 was committed"),
    ):
        raise KeyboardInterrupt
    assert "version 3 was committed: KeyboardInterrupt" in caplog.text
