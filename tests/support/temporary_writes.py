"""Writes to temporary files of queries."""

import os


def counted_writes(monkeypatch):
    """Return a list that gets how many bytes each write had."""
    written = []
    write = os.pwrite

    def counted(descriptor, content, offset):
        written.append(len(content))
        return write(descriptor, content, offset)

    monkeypatch.setattr(os, "pwrite", counted)
    return written
