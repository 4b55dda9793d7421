"""A prefix of a bucket that tests use as if it were a folder."""

import os
from contextlib import suppress
from fnmatch import fnmatch

try:
    import obstore
    from obstore.store import from_url
except ImportError:  # an extra; the fixture `store_server` skips what needs it
    obstore = None


class StorePlace(os.PathLike):
    """A location in an object store, with the methods of `Path` that tests of tables need."""

    def __init__(self, url, options):
        self.url = url
        self.options = options

    def __fspath__(self):
        return self.url

    def __str__(self):
        return self.url

    def __repr__(self):
        return f"StorePlace({self.url!r})"

    def __truediv__(self, name):
        return StorePlace(f"{self.url}/{name}", self.options)

    @property
    def parent(self):
        return StorePlace(self.url.rpartition("/")[0], self.options)

    @property
    def name(self):
        return self.url.rpartition("/")[2]

    def _at(self):
        parent = self.parent
        return store_at(parent.url, self.options), self.name

    def exists(self):
        return self.is_file() or any(True for _ in self.iterdir())

    def is_file(self):
        store, name = self._at()
        with suppress(FileNotFoundError):
            return obstore.head(store, name)["size"] >= 0
        return False

    def stat(self):
        store, name = self._at()
        size = obstore.head(store, name)["size"]
        return os.stat_result((0,) * 6 + (size,) + (0,) * 3)

    def read_bytes(self):
        store, name = self._at()
        return bytes(obstore.get(store, name).bytes())

    def write_bytes(self, content):
        store, name = self._at()
        obstore.put(store, name, content)

    def read_text(self, *_):
        return self.read_bytes().decode()

    def unlink(self):
        store, name = self._at()
        obstore.delete(store, name)

    def iterdir(self):
        for chunk in obstore.list(store_at(self.url, self.options)):
            for one in chunk:
                yield self / one["path"]

    def write_text(self, text, *_):
        self.write_bytes(text.encode())

    def rename(self, target):
        for place in list(self.iterdir()):
            inside = place.url.removeprefix(self.url + "/")
            StorePlace(f"{target.url}/{inside}", self.options).write_bytes(place.read_bytes())
            place.unlink()

    def glob(self, pattern):
        return (place for place in self.iterdir() if fnmatch(place.url, f"{self.url}/{pattern}"))

    def rglob(self, pattern):
        assert pattern == "*"
        return self.iterdir()


def store_at(url, options):
    config = {key: value for key, value in options.items() if key != "allow_http"}
    return from_url(url, config=config, client_options={"allow_http": True})


def environment_of(options):
    """Return storage options as the environment variables that mean the same."""
    names = {"endpoint": "AWS_ENDPOINT_URL"}
    return {names.get(key, f"AWS_{key.upper()}"): value for key, value in options.items()}
