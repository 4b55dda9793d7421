"""What a single benchmark measured, printed and kept: its command, when it ran, and its figures."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def publish(command: str, figures: Mapping[str, Any], path: str | Path | None) -> None:
    """Print the record of a run, and write it to a file if one is given.

    Parameters
    ----------
    command : str
        What makes the figures again.
    figures : mapping
        What JSON can hold.
    path : str or Path, optional
        The file, which is overwritten.
    """
    record = {
        "command": command,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": round(os.getloadavg()[0], 2),
        "processors": os.cpu_count(),
        **figures,
    }
    text = json.dumps(record, indent=1)
    sys.stdout.write(text + "\n")
    if path is not None:
        Path(path).write_text(text + "\n", encoding="utf-8")
