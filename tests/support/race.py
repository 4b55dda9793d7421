"""Writers in processes of their own."""

import multiprocessing
import os
import signal
import traceback

CONTEXT = multiprocessing.get_context("fork")


def run_processes(target, arguments):
    """Run `target(*one)` for each of `arguments` at the same time; return what they returned."""
    queue = CONTEXT.SimpleQueue()
    barrier = CONTEXT.Barrier(len(arguments))
    processes = [
        CONTEXT.Process(target=_report, args=(queue, barrier, index, target, one))
        for index, one in enumerate(arguments)
    ]
    for process in processes:
        process.start()
    results = dict(queue.get() for _ in processes)
    for process in processes:
        process.join()
    failures = [text for text, _ in results.values() if text]
    assert not failures, failures[0]
    return [results[index][1] for index in range(len(processes))]


def _report(queue, barrier, index, target, arguments):
    try:
        barrier.wait()
        queue.put((index, ("", target(*arguments))))
    except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it
        queue.put((index, (traceback.format_exc(), None)))


def run_and_die(action):
    """Run `action` in a child; return True if it was killed, False if it ended well."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not run the parent's test
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False
