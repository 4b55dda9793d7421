"""All states that a power cut may leave, from a record of system calls (after ALICE, OSDI 2014).

This is harsher than real file systems: until a folder is synced, each change of its names may be on
disk or not, in any combination; until a file is synced, its bytes may be missing, torn or whole.
"""

from itertools import product
from pathlib import Path

TORN_LENGTHS = 3


class Disk:
    """What is durable, and the changes that are only in memory."""

    def __init__(self):
        self.names = {}  # path -> file, or "folder"
        self.bytes = {}  # file -> durable bytes
        self.unsynced_names = []  # (folder, path, file or None or "folder")
        self.unsynced_bytes = {}  # file -> bytes in memory
        self.memory = {}  # path -> file: what running processes see

    def apply(self, event):
        match event:
            case ("create", path, file):
                self._rename(path, file)
                self.unsynced_bytes[file] = b""
                self.bytes[file] = b""
            case ("write", file, payload):
                self.unsynced_bytes[file] = self.unsynced_bytes.get(file, b"") + payload
            case ("fsync", file):
                self.bytes[file] = self.unsynced_bytes.pop(file, self.bytes[file])
            case ("link", source, target):
                self._rename(target, self.memory[source])
            case ("unlink", path):
                self._rename(path, None)
            case ("mkdir", path):
                self._rename(path, "folder")
            case ("sync_folder", folder):
                for inside, path, file in self.unsynced_names:
                    if inside == folder:
                        self._set(self.names, path, file)
                self.unsynced_names = [n for n in self.unsynced_names if n[0] != folder]

    def _rename(self, path, file):
        self._set(self.memory, path, file)
        self.unsynced_names.append((str(Path(path).parent), path, file))

    @staticmethod
    def _set(names, path, file):
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file

    def after_power_cut(self):
        """Yield every {path: bytes or None for a folder} that may be found."""
        files = sorted(self.unsynced_bytes)
        keeps = product([False, True], repeat=len(self.unsynced_names))
        lengths = list(product(range(TORN_LENGTHS), repeat=len(files)))
        for kept in keeps:
            names = dict(self.names)
            for keep, (_, path, file) in zip(kept, self.unsynced_names, strict=True):
                if keep:
                    self._set(names, path, file)
            for torn in lengths:
                content = dict(self.bytes)
                for file, part in zip(files, torn, strict=True):
                    whole = self.unsynced_bytes[file]
                    content[file] = whole[: len(whole) * part // (TORN_LENGTHS - 1)]
                yield {p: None if f == "folder" else content[f] for p, f in names.items()}


def crash_states(events):
    """Yield (number of calls done, state) for a cut before, between and after all calls.

    States that are equal after the same number of calls are yielded once.
    """
    disk = Disk()
    for done in range(len(events) + 1):
        if done:
            disk.apply(events[done - 1])
        seen = set()
        for state in disk.after_power_cut():
            key = frozenset(state.items())
            if key not in seen:
                seen.add(key)
                yield done, state


def materialise(state, before, root, place):
    """Write a state, over the files that were there before, to the folder `place`."""
    place.mkdir()
    for path, content in {**before, **state}.items():
        target = place / Path(path).relative_to(root)
        if any(str(p) not in state and str(p) not in before for p in parents(path, root)):
            continue  # the folder that names it was lost
        if content is None:
            target.mkdir(exist_ok=True)
        else:
            target.write_bytes(content)


def parents(path, root):
    """Return the folders between `root` and `path`, neither included."""
    return [p for p in Path(path).parents if Path(root) in p.parents]


def image(root):
    """Return {path: bytes or None} of everything below a folder, parents first."""
    return {
        str(path): None if path.is_dir() else path.read_bytes()
        for path in sorted(Path(root).rglob("*"))
    }
