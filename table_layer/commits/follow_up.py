"""What follows a commit: the rows are there, so nothing that goes wrong in it is raised.

Whoever gets an error from a write repeats it, which would double the rows. So this covers more than
errors of projseg: memory that is short, a value that no code expected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def only_logged(logger: logging.Logger, failure: Callable[[], str]) -> Iterator[None]:
    """Log whatever is raised inside as a warning; an interruption by the user is raised as well."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        logger.warning("%s: %s", failure(), str(error) or type(error).__name__)
    except BaseException as error:
        logger.warning("%s: %s", failure(), str(error) or type(error).__name__)
        raise
