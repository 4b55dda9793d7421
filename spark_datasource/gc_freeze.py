"""Keep what is imported out of the collections of garbage that Spark asks of its Python workers.

Spark's daemon has a worker collect garbage after each task, and after each call that makes a source
or plans a read; the next call waits for it. With the engine imported that takes tens of
milliseconds, as long as many reads.
"""

from __future__ import annotations

import gc
import sys

_is_frozen = False


def freeze_imports() -> None:
    """Let collections skip all that is in memory, once for each worker; elsewhere do nothing.

    To be called once what a worker needs is imported.
    """
    global _is_frozen
    if not _is_frozen and _is_worker():
        _is_frozen = True
        gc.freeze()


def _is_worker() -> bool:
    """Whether a daemon of Python workers forked this process."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and str(spec.name).endswith(".daemon")
