"""A worker as a new process: `python -m projseg.query_pool.spawned`, with a channel as its input.

The first message is its task, and the others are questions.
"""

from __future__ import annotations

import json
import os
import socket

from projseg.query_pool.channel import Channel
from projseg.query_pool.process_care import ignore_interrupts
from projseg.query_pool.worker import VersionsOf, work
from projseg.table_layer.storage import open_storage


def main() -> None:
    """Serve until the other end is closed."""
    ignore_interrupts()
    channel = Channel(socket.socket(fileno=os.dup(0)))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        task = json.loads(bytes(channel.receive().content))
    except EOFError:
        return
    tables = {
        name: VersionsOf(open_storage(location, options))
        for name, (location, options) in task["tables"].items()
    }
    work(channel, tables, task["threads"])


if __name__ == "__main__":
    main()
