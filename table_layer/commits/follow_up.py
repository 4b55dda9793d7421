"""What follows a commit: the rows are there, so nothing that goes wrong in it is raised.

Whoever gets an error from a write repeats it, which would double the rows. So this covers more than
errors of projseg: memory that is short, a value that no code expected.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def only_logged(logger: logging.Logger, text: str, *arguments: object) -> Iterator[None]:
    """Log whatever is raised inside as a warning; an interruption by the user is raised as well.

    Parameters
    ----------
    logger : logging.Logger
        Who warns.
    text : str
        What was committed and what failed; the error follows after a colon.
    *arguments : object
        Of the text's places.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001
        logger.warning(f"{text}: %s", *arguments, described(error))
    except BaseException as error:
        logger.warning(f"{text}: %s", *arguments, described(error))
        raise


def described(error: BaseException) -> str:
    """Return an error in words: some have none of their own."""
    return str(error) or type(error).__name__
