"""Slow, obvious twin of the zeros that integers end with."""


def zeros_of(number, most):
    """Return how many zeros a number ends with, at most `most`."""
    digits = str(number)
    return most if number == 0 else min(most, len(digits) - len(digits.rstrip("0")))
