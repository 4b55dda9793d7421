"""Import modules at their first use, so that a process that asks one small query starts sooner.

    with late_import:
        from projseg.aggregation.states.sketches.hll import HllState

A child forked while another thread imports a module could never import it itself: Python's lock of
that module would stay held. So a query imports modules late only while no fork can happen.
"""

from __future__ import annotations

import threading
from typing import Final

from projseg.memory.forks import hold_while_forking

late_import: Final = threading.RLock()
hold_while_forking(late_import)
