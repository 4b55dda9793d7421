"""Mutants of a whole table: any file, its bytes or its fields, with checksums mended or not."""

import json
import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
from forged_tables import _close_directories, _leaves, _open_directories, other_values, sealed

import projseg
from projseg.errors import ProjsegError
from projseg.memory.cache import KEPT
from projseg.segment_format.footer import TAIL_LAYOUT, Tail

SQL = [
    "SELECT k, sum(n) AS n, count(*) AS c FROM t GROUP BY k",
    "SELECT count(*) AS c, min(n) AS a, max(n) AS b, max(who) AS w FROM t",
    "SELECT d, count(*) AS c FROM t WHERE n >= 10 GROUP BY d",
    "SELECT who, n FROM t WHERE who = 'person 7'",
    "SELECT who, n, k FROM t ORDER BY n, who LIMIT 4",
    "SELECT date_trunc('DAY', time) AS day, sum(n) AS s FROM t GROUP BY 1",
]
SCHEMA = {"time": "timestamp", "who": "string", "k": "string", "n": "bigint", "d": "int"}


def make_table(location):
    """Make a table with every kind of file: projections, filters, deleted rows, views, tags."""
    table = projseg.Table.create(
        location,
        SCHEMA,
        time_column="time",
        segment_granularity="day",
        projections=[{"name": "by_k", "sql": "SELECT k, sum(n) AS n, count(*) AS c GROUP BY k"}],
        indexes=[projseg.Index("whose", ["who"])],
        properties={"maxDeletedRatio": "0.9"},
    )
    for day in range(3):
        rows = {name: [] for name in SCHEMA}
        for n in range(12):
            values = (86_400_000_000 * day + n, f"person {n % 9}", "ab"[n % 2], n + day, n % 3)
            for name, value in zip(SCHEMA, values, strict=True):
                rows[name].append(value)
        table.append(pa.table(rows).cast(table.schema))
    table.tag("first")
    table.create_view("v", "SELECT k, d, sum(n) AS n, count(*) AS c FROM t GROUP BY k, d")
    table.delete("n = 5")
    table.create_view("w", "SELECT who, count(*) AS c FROM t GROUP BY who", refresh="deferred")
    return table


def answers(location):
    """Return each answer as text, or the error of ours in its place; other errors pass."""
    KEPT.clear()
    found = []
    for number, sql in enumerate(SQL):
        context = {"noViews": True} if number % 2 else None
        try:
            table = projseg.Table(location)
            found.append(sorted(map(str, table.sql(sql, context=context).to_pylist())))
        except ProjsegError as error:
            found.append(error.code if str(error).isprintable() else repr(error))
    return found


def is_found_out(location):
    """Whether a check of everything says that something is wrong."""
    KEPT.clear()
    try:
        table = projseg.Table(location)
        return bool(table.verify(deep=True, all_versions=True))
    except ProjsegError:
        return True


class Mutants:
    """Draws mutants of a sound table.

    Parameters
    ----------
    sound : Path
        The table, which stays as it is.
    random : random.Random
        What draws.
    """

    def __init__(self, sound, random):
        self.sound, self.random = Path(sound), random
        self.files = sorted(p for p in self.sound.rglob("*") if p.is_file())
        self.kinds = {}
        for path in self.files:
            self.kinds.setdefault(self._kind(path), []).append(path.relative_to(self.sound))

    def _kind(self, path):
        name = str(path.relative_to(self.sound))
        kind = path.suffix
        if path.suffix == ".json":
            kind = json.loads(path.read_bytes())["kind"]
        return f"{'views ' if name.startswith('views') else ''}{kind}"

    def draw(self, location):
        """Make a mutant at a location; return what it is."""
        shutil.rmtree(location, ignore_errors=True)
        shutil.copytree(self.sound, location)
        kind = self.random.choice(sorted(self.kinds))
        name = self.random.choice(self.kinds[kind])
        path = Path(location) / name
        how = self.random.choice(["bytes", "bytes", "exchanged", "fields", "fields", "fields"])
        if how == "fields" and path.suffix == ".json":
            what = self._change_fields(path)
            self._mend(Path(location))
        elif how == "fields" and path.suffix == ".pseg":
            what = self._change_footer(path)
            self._mend(Path(location))
        elif how == "exchanged" and len(self.kinds[kind]) > 1:
            other = self.random.choice([one for one in self.kinds[kind] if one != name])
            shutil.copyfile(self.sound / other, path)
            what = f"exchanged with {other}"
        else:
            what = self._change_bytes(path)
        return f"{kind} {name}: {what}"

    def _change_bytes(self, path):
        content = bytearray(path.read_bytes())
        how = self.random.choice(["bit", "byte", "burst", "cut", "zeros", "longer", "gone"])
        at = self.random.randrange(len(content))
        if how == "bit":
            content[at] ^= 1 << self.random.randrange(8)
        elif how == "byte":
            content[at] = self.random.randrange(256)
        elif how == "burst":
            content[at : at + 8] = self.random.randbytes(8)
        elif how == "cut":
            del content[at:]
        elif how == "zeros":
            content[at : at + 64] = bytes(len(content[at : at + 64]))
        elif how == "longer":
            content += self.random.randbytes(self.random.randrange(1, 40))
        if how == "gone" and path.name.startswith("0") and path == max(path.parent.glob("0*")):
            how = "kept"  # a log without its newest version is that of an earlier time
        elif how == "gone":
            path.unlink()
        else:
            path.write_bytes(bytes(content))
        return f"{how} at {at}"

    def _lie(self, document):
        keys, value = self.random.choice(list(_leaves(document)))
        inner = document
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = self.random.choice(other_values(value, self.random))
        return f"{'/'.join(map(str, keys))} = {str(inner[keys[-1]])[:60]!r}"

    def _change_fields(self, path):
        document = json.loads(path.read_bytes())
        told = "; ".join(self._lie(document) for _ in range(self.random.choice([1, 1, 2])))
        path.write_bytes(sealed(document))
        return told

    def _change_footer(self, path):
        content = path.read_bytes()
        offset = TAIL_LAYOUT.unpack(content[-TAIL_LAYOUT.size :])[0]
        required, optional = TAIL_LAYOUT.unpack(content[-TAIL_LAYOUT.size :])[3:5]
        footer = msgspec.msgpack.decode(content[offset : -TAIL_LAYOUT.size])
        _open_directories(footer)
        told = self._lie(footer)
        _close_directories(footer)
        encoded = msgspec.msgpack.encode(footer)
        tail = Tail(offset, len(encoded), required_features=required, optional_features=optional)
        path.write_bytes(content[:offset] + encoded + tail.pack(encoded))
        return told

    def _mend(self, location):
        """Mend the sizes and checksums by which files name each other, the innermost first."""
        for root in (location, location / "views"):
            metadata = sorted((root / "_projseg").glob("*.json"))
            lists = sorted((root / "_projseg" / "manifests").glob("*.json"))
            documents = {p: _read(p) for p in (*metadata, *lists)}
            for path, document in documents.items():
                if document is not None:
                    self._mend_entries(root, document)
                    path.write_bytes(sealed(document))
            for _ in range(2):  # lists of parts, then lists of views
                for document in filter(None, documents.values()):
                    _mend_references(root, document)
                for path, document in documents.items():
                    if document is not None:
                        path.write_bytes(sealed(document))

    def _mend_entries(self, root, document):
        for entry in _lists(document):
            name = entry[0] if entry and isinstance(entry[0], str) else ""
            path = root / name
            if name.endswith(".pseg") and len(entry) > 4 and path.is_file():
                content = path.read_bytes()
                entry[3:5] = len(content), TAIL_LAYOUT.unpack(content[-TAIL_LAYOUT.size :])[5]


def _read(path):
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


def _lists(document):
    if isinstance(document, list):
        yield document
    for value in document.values() if isinstance(document, dict) else document:
        if isinstance(value, dict | list):
            yield from _lists(value)


def _mend_references(root, document):
    for entry in _lists(document):
        if len(entry) > 3 and isinstance(entry[0], str) and entry[0].startswith("_projseg/manif"):
            path = root / entry[0]
            if path.is_file():
                content = path.read_bytes()
                entry[1:3] = len(content), content[13:45].decode(errors="replace")
