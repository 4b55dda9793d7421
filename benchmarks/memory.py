"""Peak memory of a process and its children while something runs."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final

__all__ = ["PeakMemory"]

_SAMPLE_SECONDS: Final = 0.02


class PeakMemory:
    """Samples memory every 20 ms; `peak_bytes` is the largest sum seen.

    Mapped files do not count: they are the page cache's, and staged rows are read by mapping.
    Without psutil (extra [bench]) the peak is None.
    """

    def __init__(self) -> None:
        self.peak_bytes: int | None = None
        self._process = _this_process()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> PeakMemory:
        if self._process is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._process is not None:
            self._thread.join()

    def _sample(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._stop.wait(_SAMPLE_SECONDS)  # one more sample after the end
            self.peak_bytes = max(self.peak_bytes or 0, _anonymous_bytes(self._process))


def _this_process() -> Any:
    try:
        import psutil  # optional: extra [bench]
    except ImportError:
        return None
    return psutil.Process()


def _anonymous_bytes(process: Any) -> int:
    total = 0
    for member in (process, *process.children(recursive=True)):
        try:
            memory = member.memory_info()
        except ProcessLookupError:
            continue
        except Exception as error:
            if type(error).__name__ != "NoSuchProcess":  # psutil's own, ended since it was listed
                raise
            continue
        total += memory.rss - getattr(memory, "shared", 0)
    return total
