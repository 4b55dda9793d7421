"""Workers that end are replaced, and none outlives its pool, whatever happens to whom."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import psutil
import pyarrow as pa
import pytest

import projseg
from projseg.errors import InvalidInputError, QueryTimeoutError, WorkerError

METHODS = pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
QUESTION = {"group_by": "name", "aggregators": "sum(v) AS v", "order_by": "name"}
SECONDS_MAX = 20


@pytest.fixture
def table(location):
    table = projseg.Table(location)
    table.query(**QUESTION)
    return table


@contextmanager
def stopped(pids):
    """Workers that take no part until they are killed."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def until(condition):
    end = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.005)


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@METHODS
def test_killed_workers_are_replaced(method, table):
    expected = table.query(**QUESTION)
    with projseg.QueryPool(table, workers=2, start_method=method) as pool:
        before = pool.worker_pids
        assert len(set(before)) == 2
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        answers = [pool.submit(**QUESTION) for _ in range(6)]
        assert all(answer.result() == expected for answer in answers)
        assert not set(before) & set(pool.worker_pids)


def test_a_question_under_way_in_a_killed_worker_is_asked_again(table):
    expected = table.query(**QUESTION)
    with projseg.QueryPool(table, workers=1) as pool, stopped(pool.worker_pids):
        answer = pool.submit(**QUESTION)
        time.sleep(0.05)
        assert not answer.done()
        os.kill(pool.worker_pids[0], signal.SIGKILL)
        assert answer.result(SECONDS_MAX) == expected


def test_a_question_that_two_workers_die_over_fails(table):
    """The second is killed as soon as it is there, which is long before it can have answered."""
    with projseg.QueryPool(table, workers=1) as pool:
        answer = pool.submit(columns="text", filter="text LIKE '%1%2%3%4%5%'", order_by="text")
        while not answer.done():
            for pid in pool.worker_pids:
                kill(pid)
        with pytest.raises(WorkerError, match="killed by SIGKILL, the second was killed") as ended:
            answer.result()
        assert ended.value.code == "PROJSEG_WORKER_ENDED"
        assert "text LIKE" in ended.value.message
        assert pool.query(**QUESTION) == table.query(**QUESTION)


def kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def test_workers_outlive_the_process_that_forked_them(table):
    """That process is made anew when the next worker is needed."""
    with projseg.QueryPool(table, workers=2) as pool:
        first, second = pool.worker_pids
        server = psutil.Process(first).parent()
        assert server.ppid() == os.getpid()
        server.kill()
        assert pool.query(**QUESTION) == table.query(**QUESTION)
        os.kill(first, signal.SIGKILL)
        os.kill(second, signal.SIGKILL)
        assert pool.query(**QUESTION) == table.query(**QUESTION)
    until(lambda: is_gone(first) and is_gone(second))


def test_a_question_has_the_time_that_it_is_given(table):
    expected = table.query(**QUESTION)
    with projseg.QueryPool(table, workers=1) as pool:
        (before,) = pool.worker_pids
        with stopped([before]):
            waiting = pool.submit(**QUESTION, timeout=0.2)
            behind = pool.submit(**QUESTION)
            with pytest.raises(QueryTimeoutError, match=r"after 0\.1 seconds: query"):
                pool.query(**QUESTION, timeout=0.1)
            with pytest.raises(TimeoutError) as late:
                waiting.result()
        assert late.value.code == "PROJSEG_QUERY_TIMEOUT"
        assert behind.result() == expected
        for enough in (60, 1e10, float("inf")):
            assert pool.query(**QUESTION, timeout=enough) == expected
        assert is_gone(before)
        for timeout in (0, -1, "long", float("nan")):
            with pytest.raises(InvalidInputError, match="timeout is"):
                pool.query(**QUESTION, timeout=timeout)


def test_a_question_that_no_worker_takes_has_the_same_time(table):
    """It is larger than what the system takes for a process that does not read."""
    long = f"name <> '{'x' * 4_000_000}'"
    with projseg.QueryPool(table, workers=1) as pool:
        with stopped(pool.worker_pids), pytest.raises(QueryTimeoutError):
            pool.query(filter=long, timeout=0.3)
        assert pool.query(**QUESTION) == table.query(**QUESTION)


def test_a_pool_has_no_part_in_the_time_of_other_sockets(table):
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.01)
    try:
        with projseg.QueryPool(table, workers=1) as pool, stopped(pool.worker_pids):
            answer = pool.submit(**QUESTION, timeout=SECONDS_MAX)
            time.sleep(0.1)
            for pid in pool.worker_pids:
                os.kill(pid, signal.SIGCONT)
            assert answer.result() == table.query(**QUESTION)
    finally:
        socket.setdefaulttimeout(before)


def test_a_closed_pool_answers_nothing(table):
    pool = projseg.QueryPool(table, workers=1)
    assert "1 worker" in repr(pool)
    pool.close()
    pool.close()
    assert "closed" in repr(pool)
    assert pool.worker_pids == []
    for ask in (pool.query, lambda: pool.sql("SELECT 1 FROM t"), pool.submit):
        with pytest.raises(InvalidInputError) as refused:
            ask()
        assert refused.value.code == "PROJSEG_POOL_CLOSED"


def test_closing_ends_questions_that_are_under_way_or_wait(table):
    pool = projseg.QueryPool(table, workers=1)
    pool.query(**QUESTION)
    codes = []

    def ask():
        with pytest.raises(InvalidInputError) as refused:
            pool.query(**QUESTION)
        codes.append(refused.value.code)

    with stopped(pool.worker_pids):
        askers = [threading.Thread(target=ask) for _ in range(3)]
        for asker in askers:
            asker.start()
        submitted = [pool.submit(**QUESTION) for _ in range(2)]
        time.sleep(0.1)
        pool.close()
    for asker in askers:
        asker.join()
    assert codes == ["PROJSEG_POOL_CLOSED"] * 3
    for one in submitted:
        with pytest.raises(InvalidInputError, match="closed before it answered"):
            one.result()


def test_threads_that_ask_while_a_pool_is_closed_get_an_answer_or_a_refusal(table):
    expected = table.query(**QUESTION)
    for pause in (0.0, 0.002, 0.02):
        pool = projseg.QueryPool(table, workers=2)
        wrong = []

        def ask(pool=pool, wrong=wrong):
            try:
                while True:
                    if pool.query(**QUESTION) != expected:
                        wrong.append("another answer")
            except InvalidInputError as error:
                if error.code != "PROJSEG_POOL_CLOSED":
                    wrong.append(error)

        askers = [threading.Thread(target=ask) for _ in range(8)]
        closers = [threading.Thread(target=pool.close) for _ in range(2)]
        for thread in askers:
            thread.start()
        time.sleep(pause)
        for thread in closers:
            thread.start()
        for thread in askers + closers:
            thread.join()
        assert wrong == []


def test_a_pool_can_be_closed_by_what_an_answer_calls(table):
    pool, is_closed = projseg.QueryPool(table, workers=1), threading.Event()

    def close(_):
        pool.close()
        is_closed.set()

    pool.submit(**QUESTION).add_done_callback(close)
    assert is_closed.wait(SECONDS_MAX)
    pool.close()


def ask_for_ever(pool):
    while True:
        pool.query(**QUESTION)


def test_a_signals_handler_may_close_a_pool(table):
    """Also while the thread that it interrupts asks, or closes the pool itself."""
    before = signal.signal(signal.SIGUSR1, lambda *_: pool.close())
    try:
        for pause in (0.0, 0.001, 0.02):
            pool = projseg.QueryPool(table, workers=1)
            other = threading.Timer(pause, os.kill, (os.getpid(), signal.SIGUSR1))
            other.start()
            with pytest.raises(InvalidInputError, match="was closed"):
                ask_for_ever(pool)
            pool.close()
            other.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_forgotten_pool_ends_its_workers(table):
    pool = projseg.QueryPool(table, workers=2)
    pids = pool.worker_pids
    del pool
    until(lambda: all(map(is_gone, pids)))


def test_a_forked_child_cannot_use_its_parents_pool(table):
    with projseg.QueryPool(table, workers=1) as pool:
        receive, send = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                pool.query(**QUESTION)
            except InvalidInputError as error:
                os.write(send, error.code.encode())
            pool.close()
            with projseg.QueryPool(projseg.Table(table.location), workers=1) as own:
                os.write(send, f" {own.query(**QUESTION).num_rows}".encode())
            os._exit(0)
        os.close(send)
        with os.fdopen(receive) as told:
            assert told.read() == "PROJSEG_FORKED_PROCESS 500"
        os.waitpid(child, 0)
        assert pool.query(**QUESTION) == table.query(**QUESTION)


def test_connections_of_the_parent_are_not_kept_open(table):
    """A server's client would never see the end of a connection of which a worker has a copy."""
    receive, send = os.pipe()
    with projseg.QueryPool(table, workers=1) as pool:
        pool.query(**QUESTION)
        os.close(send)
        assert os.read(receive, 1) == b""
    os.close(receive)


def test_no_room_for_a_process_is_told(table, monkeypatch):
    def refuse():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with projseg.QueryPool(table, workers=1) as pool:
        monkeypatch.setattr(os, "fork", refuse)
        psutil.Process(pool.worker_pids[0]).parent().kill()
        os.kill(pool.worker_pids[0], signal.SIGKILL)
        with pytest.raises(WorkerError, match="temporarily unavailable") as refused:
            pool.query(**QUESTION)
        assert refused.value.code == "PROJSEG_WORKER_NOT_STARTED"
        with pytest.raises(WorkerError):
            projseg.QueryPool(table, workers=1)
        monkeypatch.undo()
        assert pool.query(**QUESTION) == table.query(**QUESTION)


SCRIPT = """
import os, signal, sys, threading, time
import projseg

def main():
    location, method, end = sys.argv[1:]
    pool = projseg.QueryPool(location, workers=2, start_method=method)
    pool.query(group_by="name", aggregators="sum(v) AS v")
    print(*pool.worker_pids, flush=True)
    for _ in range(4):
        slow = {"columns": "text", "filter": "text RLIKE '(1.*)+2'", "order_by": "text"}
        threading.Thread(target=pool.query, kwargs=slow, daemon=True).start()
    time.sleep(0.2)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "interrupt":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs this may ignore it
        os.killpg(0, signal.SIGINT)
        time.sleep(60)
    if end == "leave":
        sys.exit(7)

main()
"""


@pytest.mark.parametrize(
    ("method", "end", "code"),
    [
        ("fork", "kill", -signal.SIGKILL),
        ("fork", "interrupt", -signal.SIGINT),
        ("fork", "leave", 7),
        ("spawn", "kill", -signal.SIGKILL),
    ],
)
def test_workers_end_with_their_process(method, end, code, location, tmp_path):
    """Without a guard for its main module, too: workers do not import it."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, str(script), location, method, end],
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=60,
    )
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert done.returncode == code, done.stderr
    assert time.monotonic() - started < 50
    until(lambda: all(map(is_gone, pids)))


UNKNOWN_CLASS = """
import sys
import projseg

class Two(int):
    pass

if __name__ == "__main__":
    with projseg.QueryPool(sys.argv[1], workers=1, start_method="spawn") as pool:
        try:
            pool.query(aggregators="count(*) AS n", context={"threads": Two(2)})
        except projseg.ProjsegError as error:
            print(error.code)
        print(pool.query(aggregators="count(*) AS n").num_rows)
"""


def test_a_class_that_a_new_process_cannot_import_is_refused(tmp_path):
    rows = pa.table({"n": [1, 2, 3]})
    projseg.Table.create(tmp_path / "t", rows.schema).append(rows)
    (tmp_path / "script.py").write_text(UNKNOWN_CLASS)
    ran = subprocess.run(
        [sys.executable, tmp_path / "script.py", tmp_path / "t"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout.split() == ["PROJSEG_BAD_QUERY", "1"], ran.stderr
