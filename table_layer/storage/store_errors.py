"""Turn an object store's failures into messages: what was asked, what is wrong, what to do.

A store's own texts are searched and never repeated: an answer to a bad signature holds the key id,
and a signed URL holds its signature.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from projseg.errors import StorageError

_STATUS: Final = re.compile(r"non-2xx status code: (\d{3})")
_NOT_SENT: Final = re.compile(r"kind: Connect|kind: Builder")
_TIMEOUTS: Final = frozenset({408, 499})
_NOT_IMPLEMENTED: Final = 501
_NO_ANSWER: Final = re.compile(r"HTTP error|kind: Connect|[Tt]imeout|timed out")
_METADATA_SERVICE: Final = re.compile(r"169\.254\.|metadata\.google\.internal")
_DENIALS: Final = ("PermissionDeniedError", "UnauthenticatedError")
_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist")


class _Meaning(NamedTuple):
    code: str
    problem: str
    remedy: str


_DENIED: Final = _Meaning(
    "PROJSEG_NO_PERMISSION",
    "the store denies access",
    "check the credentials and what they may do there",
)
_NO_CREDENTIALS: Final = _Meaning(
    "PROJSEG_NO_CREDENTIALS",
    "no credentials were found",
    "give them as storage options (such as access_key_id and secret_access_key), in the "
    "environment (AWS_ACCESS_KEY_ID), or skip_signature=true for public data",
)
_MISSING: Final = _Meaning(
    "PROJSEG_NO_SUCH_BUCKET",
    "there is no such bucket or container",
    "create it, or check its name, region and endpoint",
)
_UNREACHABLE: Final = _Meaning(
    "PROJSEG_STORE_UNREACHABLE",
    "the store does not answer",
    "check the endpoint, the region and the network, and try again",
)
_NO_CONDITION: Final = _Meaning(
    "PROJSEG_STORAGE_NOT_ATOMIC",
    "the store does not know how to create a file only if it is absent (If-None-Match)",
    "tables there would lose commits: use another store",
)
_PLAIN_HTTP: Final = _Meaning(
    "PROJSEG_BAD_STORAGE_OPTION",
    "the endpoint is not https",
    "give storage option allow_http=true, or AWS_ALLOW_HTTP=true, if that is meant",
)


def was_refused(error: BaseException) -> bool:
    """Whether a failed request certainly had no effect: it was not sent, or it was refused."""
    status = status_of(error)
    if status is None:
        return _NOT_SENT.search(str(error)) is not None
    return status not in _TIMEOUTS and (status < 500 or status == _NOT_IMPLEMENTED)


def is_missing_bucket(error: BaseException) -> bool:
    """Whether a failure says that the bucket or container is not there."""
    return _NO_BUCKET.search(str(error)) is not None


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that a failure tells, or None."""
    found = _STATUS.search(str(error))
    return None if found is None else int(found[1])


def store_error(error: BaseException, action: str, where: str) -> StorageError:
    """Return the error of a failed request, in a user's words and without the store's.

    Parameters
    ----------
    error : BaseException
        As obstore raised it.
    action : str
        The action on the file, such as `read`.
    where : str
        The file or table, as the user would name it.
    """
    code, problem, remedy = _meaning(error)
    return StorageError(code, f"cannot {action} {where}: {problem}; {remedy}")


def _meaning(error: BaseException) -> _Meaning:
    text, status, kind = str(error), status_of(error), type(error).__name__
    signs = (
        (_DENIED, kind in _DENIALS or status in (401, 403)),
        (_NO_CREDENTIALS, _METADATA_SERVICE.search(text) is not None),
        (_MISSING, is_missing_bucket(error) or isinstance(error, FileNotFoundError)),
        (_NO_CONDITION, kind == "NotSupportedError" or status == _NOT_IMPLEMENTED),
        (_PLAIN_HTTP, "BadScheme" in text),
        (_UNREACHABLE, _NO_ANSWER.search(text) is not None),
    )
    for meaning, applies in signs:
        if applies:
            return meaning
    problem = f"the request failed ({kind})"
    if status is not None:
        problem = f"the store answered with status {status}"
    return _Meaning("PROJSEG_STORAGE_FAILED", problem, "try again when the store works")
