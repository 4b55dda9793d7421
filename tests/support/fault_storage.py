"""A storage whose n-th operation fails: once or from then on, before or after it takes effect."""

from contextlib import contextmanager

from projseg.errors import StorageError
from projseg.table_layer.storage.storage_contract import PutOutcomeUnknownError, Storage


class FaultStorage:
    """Wraps a storage, and counts its operations and those of its sinks.

    Parameters
    ----------
    inner : Storage
        The storage that works.
    at : int
        Which operation fails, counted from 1; 0: none.
    forever : bool
        Whether all later ones fail too.
    after : bool
        Whether the operation takes effect before it fails. A put then raises
        PutOutcomeUnknownError, as its contract says; with `unsure`, so does one that fails before.
    unsure : bool
        Whether a put that did nothing is reported as unknown.
    """

    def __init__(
        self, inner: Storage, at: int = 0, *, forever=False, after=False, unsure=False
    ) -> None:
        self.inner = inner
        self.at = at
        self.forever = forever
        self.after = after
        self.unsure = unsure
        self.count = 0
        self.log: list[str] = []

    @property
    def location(self) -> str:
        return self.inner.location

    @property
    def is_remote(self) -> bool:
        return self.inner.is_remote

    @property
    def was_reached(self) -> bool:
        return 0 < self.at <= self.count

    def _do(self, operation, name, action, *, is_put=False):
        self.count += 1
        self.log.append(f"{operation} {name}")
        fails = self.count == self.at or (self.forever and 0 < self.at < self.count)
        result = action() if not fails or self.after else None
        if fails:
            if is_put and (self.after or self.unsure):
                raise PutOutcomeUnknownError(5, "injected", name)
            raise StorageError("PROJSEG_STORAGE_FAILED", f"injected, {name}", 5)
        return result

    def size(self, name):
        return self._do("size", name, lambda: self.inner.size(name))

    def read_range(self, name, offset, size):
        return self._do("read", name, lambda: self.inner.read_range(name, offset, size))

    def read_sized(self, name, offset, size):
        return self._do("read", name, lambda: self.inner.read_sized(name, offset, size))

    def read_ranges(self, name, ranges):
        return self._do("read", name, lambda: self.inner.read_ranges(name, ranges))

    def put_if_absent(self, name, payload):
        self._do("put", name, lambda: self.inner.put_if_absent(name, payload), is_put=True)

    def list_names(self, prefix, after=""):
        return iter(self._do("list", prefix, lambda: list(self.inner.list_names(prefix, after))))

    def delete(self, name):
        self._do("delete", name, lambda: self.inner.delete(name))

    def check_writable(self):
        self._do("check", "", self.inner.check_writable)

    def turn(self):
        return self.inner.turn()

    @contextmanager
    def create(self, name):
        with self.inner.create(name) as sink:
            yield _FaultSink(self, sink, name)


class _FaultSink:
    def __init__(self, storage, inner, name):
        self.storage = storage
        self.inner = inner
        self.name = name

    def write(self, payload):
        self.storage._do("write", self.name, lambda: self.inner.write(payload))

    def commit(self):
        self.storage._do("commit", self.name, self.inner.commit)

    def abort(self):
        self.inner.abort()
