"""Every test here also checks that nothing was left open."""

from leaks import no_leaks

__all__ = ["no_leaks"]
