"""The session's time zone, as far as Spark's Python processes can know it.

Planning in the driver sees no setting of the session. A task does: Spark sends it every setting
that was made on the session, but not the Java machine's own zone where none was set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyspark import TaskContext

from projseg.errors import InvalidInputError

SESSION_ZONE: Final = "spark.sql.session.timeZone"
# Two zones whose clocks never agree to the second: a result equal in both is equal in any.
_UNLIKE_ZONES: Final = ("UTC", "+11:37:13")


def depends_on_zone(meaning: Callable[[str], object]) -> bool:
    """Return whether a result depends on the time zone.

    Parameters
    ----------
    meaning : callable
        Computes the result in a given zone; results are compared by equality.
    """
    one, other = map(meaning, _UNLIKE_ZONES)
    return one != other


def zone_of_task() -> str:
    """Return the time zone of the session that runs the task that this is called in.

    Raises
    ------
    InvalidInputError
        PROJSEG_TIME_ZONE_MISSING if Spark did not send it.
    """
    context = TaskContext.get()
    zone = None if context is None else context.getLocalProperty(SESSION_ZONE)
    if zone is None:
        raise InvalidInputError(
            "PROJSEG_TIME_ZONE_MISSING",
            "the answer depends on the session's time zone, and Spark tells its tasks only one "
            f"that was set; set {SESSION_ZONE} on the session, or give option 'timezone'",
        )
    return zone


def zone_missing(option: str, text: str) -> InvalidInputError:
    """Return the error for an option's time that names no zone, where none can be known."""
    return InvalidInputError(
        "PROJSEG_TIME_ZONE_MISSING",
        f"option '{option}' is '{text}', which depends on the session's time zone, and Spark does "
        "not tell it here; give option 'timezone', or write offsets, such as 2015-09-12T00:00Z",
    )
