"""Where object stores are and how to reach them: locations, schemes and options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias
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
    """A prefix, without slashes at its ends and perhaps empty, in a bucket or container.

    The scheme is a value of `STORE_SCHEMES`; the bucket is `container@account.host` for `abfs` and
    `abfss`.
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
    """Read a location; the path is taken as it is written, `%` included."""
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


# What a caller says of an object store beside its location: endpoints, regions, credentials.
#
# The values never enter a text: `repr` tells the keys alone.

StorageOptionsLike: TypeAlias = Mapping[str, str | int | bool]


class StorageOptions(Mapping[str, str]):
    """Options by obstore's key names, in any case; hashable, picklable, silent about its values."""

    __slots__ = ("_items",)

    def __init__(self, given: StorageOptionsLike | None = None) -> None:
        if given is not None and not isinstance(given, Mapping):
            raise InvalidInputError(
                "PROJSEG_BAD_STORAGE_OPTION",
                f"storage_options is of type {type(given).__name__}; give a mapping, such as "
                "{'region': 'eu-central-1'}",
            )
        items = {}
        for key, value in (given or {}).items():
            if not isinstance(key, str) or not isinstance(value, str | int):
                raise InvalidInputError(
                    "PROJSEG_BAD_STORAGE_OPTION",
                    f"storage option '{str(key)[:80]}' is of type {type(value).__name__}; give "
                    "texts, numbers or True and False",
                )
            items[key.lower()] = str(value).lower() if isinstance(value, bool) else str(value)
        self._items = tuple(sorted(items.items()))

    def __getitem__(self, key: str) -> str:
        for known, value in self._items:
            if known == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StorageOptions):
            return NotImplemented
        return self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}=..." for key in self)
        return f"StorageOptions({shown})"


NO_OPTIONS: Final = StorageOptions()
