"""Locations in object stores: which schemes there are, and what a location may contain."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

from projseg.errors import InvalidInputError, UnsupportedFeatureError

STORE_SCHEMES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "azure": "az",
    "abfs": "abfs",
    "abfss": "abfss",
}
"""Each scheme, and the one that it is another spelling of."""

_DIRECTORY_BUCKET: Final = "--x-s3"


class StoreLocation(NamedTuple):
    """A prefix in a bucket or container.

    Parameters
    ----------
    scheme : str
        A value of `STORE_SCHEMES`.
    bucket : str
        The bucket or container; `container@account.host` for `abfs` and `abfss`.
    prefix : str
        The path within it, without slashes at its ends; may be empty.
    """

    scheme: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def url(self) -> str:
        """The location as a URL whose path is quoted."""
        return f"{self.scheme}://{self.bucket}/{quote(self.prefix)}"


def parse_store_location(text: str) -> StoreLocation:
    """Read a location; the path is taken as it is written, `%` included.

    Raises
    ------
    InvalidInputError
        PROJSEG_BAD_LOCATION. The message does not repeat a location that may hold a password.
    UnsupportedFeatureError
        PROJSEG_UNSUPPORTED_STORAGE for an S3 directory bucket.
    """
    scheme, _, rest = text.partition(":")
    scheme = STORE_SCHEMES[scheme.lower()]
    form = f"write {scheme}://bucket/path"
    if not rest.startswith("//"):
        raise InvalidInputError("PROJSEG_BAD_LOCATION", f"{text!r} names no bucket; {form}")
    bucket, _, path = rest[2:].partition("/")
    allowed = 1 if scheme in ("abfs", "abfss") else 0
    if bucket.count("@") > allowed or ":" in bucket:
        raise InvalidInputError(
            "PROJSEG_BAD_LOCATION",
            f"a {scheme}: location holds a user, a password or a port; {form}, and give those as "
            "storage options",
        )
    prefix = path.strip("/")
    odd = [part for part in prefix.split("/") if part in ("", ".", "..")] if prefix else []
    is_plain = urlsplit(f"s3://{bucket}").netloc == bucket and all(c > " " for c in bucket)
    if not bucket or not is_plain or odd or any(c < " " or c in "?#\\\x7f" for c in prefix):
        raise InvalidInputError(
            "PROJSEG_BAD_LOCATION",
            f"{text!r} is not a prefix of an object store; {form}, without empty parts, '.', '..', "
            "'?', '#' and control characters",
        )
    if scheme == "s3" and bucket.endswith(_DIRECTORY_BUCKET):
        raise UnsupportedFeatureError(
            "PROJSEG_UNSUPPORTED_STORAGE",
            f"{bucket} is a directory bucket, which lists files in no order; use a general "
            "purpose bucket",
        )
    return StoreLocation(scheme, bucket, prefix)
