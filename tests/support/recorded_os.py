"""Replacements of the `os` module in `local_storage`: record, fail or die at the n-th change."""

import errno
import os
import signal

CHANGES = ("create", "write", "fsync", "link", "unlink", "mkdir", "close")


class UnsyncedOs:
    """Real system calls except fsync, which takes minutes and makes no difference to tests."""

    def __getattr__(self, name):
        return getattr(os, name)

    def fsync(self, descriptor):
        os.fstat(descriptor)


class RecordedOs(UnsyncedOs):
    """Real system calls, with a record of what each changed, by path and file identity.

    Events are tuples: ("create", path, file), ("write", file, bytes), ("fsync", file),
    ("sync_folder", path), ("link", from, to), ("unlink", path), ("mkdir", path).
    """

    def __init__(self):
        self.events = []
        self._paths = {}
        self._files = {}
        self._next_file = 0

    def before(self, call):
        """Hook for subclasses: may raise in place of the call."""

    def _path(self, path, dir_fd):
        return path if dir_fd is None else os.path.join(self._paths[dir_fd], path)

    def open(self, path, flags, mode=0o777, *, dir_fd=None):
        creates = bool(flags & os.O_CREAT)
        if creates:
            self.before("create")
        descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
        self._paths[descriptor] = self._path(path, dir_fd)
        if creates:
            self._files[descriptor] = self._next_file
            self.events.append(("create", self._paths[descriptor], self._next_file))
            self._next_file += 1
        return descriptor

    def close(self, descriptor):
        # Forgotten first: another thread may be given the same number at once.
        self._paths.pop(descriptor, None)
        is_file = self._files.pop(descriptor, None) is not None
        os.close(descriptor)
        if is_file:
            self.before("close")

    def write(self, descriptor, payload):
        self.before("write")
        written = os.write(descriptor, payload)
        self.events.append(("write", self._files[descriptor], bytes(payload[:written])))
        return written

    def fsync(self, descriptor):
        self.before("fsync")
        super().fsync(descriptor)
        if descriptor in self._files:
            self.events.append(("fsync", self._files[descriptor]))
        else:
            self.events.append(("sync_folder", self._paths[descriptor]))

    def link(self, source, target, *, src_dir_fd, dst_dir_fd):
        self.before("link")
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        names = (self._path(source, src_dir_fd), self._path(target, dst_dir_fd))
        self.events.append(("link", *names))

    def unlink(self, path, *, dir_fd=None):
        self.before("unlink")
        os.unlink(path, dir_fd=dir_fd)
        self.events.append(("unlink", self._path(path, dir_fd)))

    def mkdir(self, path, mode=0o777, *, dir_fd=None):
        self.before("mkdir")
        os.mkdir(path, mode, dir_fd=dir_fd)
        self.events.append(("mkdir", self._path(path, dir_fd)))


class FailingOs(RecordedOs):
    """Fail the n-th changing call (from 1) in place of doing it, once or from then on."""

    def __init__(self, at, code=errno.EIO, *, forever=False, only=CHANGES):
        super().__init__()
        self.at = at
        self.code = code
        self.forever = forever
        self.only = only
        self.count = 0

    @property
    def was_reached(self):
        return self.count >= self.at

    def before(self, call):
        if call in self.only:
            self.count += 1
            if self.count == self.at or (self.forever and self.count > self.at):
                raise OSError(self.code, os.strerror(self.code))


class ShortWritingOs(RecordedOs):
    """Write one byte less than half of what is asked, as a full or slow disk may."""

    def write(self, descriptor, payload):
        return super().write(descriptor, payload[: max(1, len(payload) // 2 - 1)])


class DyingOs(FailingOs):
    """Kill this process in place of the n-th changing call."""

    def before(self, call):
        if call in self.only:
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)
