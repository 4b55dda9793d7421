"""Every test here also checks that nothing was left open."""

from leaks import no_open_files

__all__ = ["no_open_files"]
