"""An Iceberg table that jobs of somebody else change, and questions of it as it is."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from foreign_source import comparable, rows
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

NAME = "sales.edits"


def catalog_properties(place, warehouse=None):
    """Return properties of a catalog in a file, with its name."""
    place.mkdir(exist_ok=True)
    uri = f"sqlite:///{place}/catalog.db"
    return {
        "name": "theirs",
        "type": "sql",
        "uri": uri,
        "warehouse": warehouse or f"file://{place}",
    }


def open_catalog(properties):
    return load_catalog(properties["name"], **{k: v for k, v in properties.items() if k != "name"})


class IcebergLake:
    """An Iceberg table in a catalog of its own.

    Parameters
    ----------
    place : Path
        A folder for the catalog and the table.
    random : np.random.Generator
        Draws its rows and its changes.
    partition : str or None
        The column that it is partitioned by, as it is.
    """

    def __init__(self, place, random, partition=None):
        self.place, self.random = place, random
        self.properties = catalog_properties(place)
        with closing(open_catalog(self.properties)) as catalog:
            catalog.create_namespace("sales")
            table = catalog.create_table(NAME, rows(random, 50).schema)
            if partition is not None:
                with table.update_spec() as update:
                    update.add_identity(partition)
        self.number = 0

    @property
    def table(self):
        with closing(open_catalog(self.properties)) as catalog:
            return catalog.load_table(NAME)

    @property
    def ids(self):
        return {field.name: field.field_id for field in self.table.schema().fields}

    def drawn(self, table, count=None):
        """Return drawn rows with a table's columns, some of them under other names."""
        count = int(self.random.integers(1, 300)) if count is None else count
        held = rows(self.random, count, extra=True)
        for other, name in (("leaf", "page"), ("town", "city"), ("moment", "time")):
            held = held.append_column(other, held.column(name))
        schema = table.schema().as_arrow()
        columns = [held.column(f.name) for f in schema]
        return pa.table(columns, names=schema.names).cast(
            pa.schema([pa.field(f.name, f.type) for f in schema])
        )

    def append(self):
        table = self.table
        table.append(self.drawn(table))

    def overwrite(self):
        table = self.table
        table.overwrite(self.drawn(table, 50))

    def overwrite_some(self):
        table = self.table
        table.overwrite(self.drawn(table, 20), f"added > {int(self.random.integers(20, 50))}")

    def delete(self):
        self.table.delete(f"added < {int(self.random.integers(-50, -20))}")

    def compact(self):
        table = self.table
        table.overwrite(table.scan().to_arrow())

    def add_file(self):
        """Add a file of others, which states no ids of columns."""
        table = self.table
        held = self.drawn(table, 30)
        names = {field.field_id: field.name for field in table.schema().fields}
        for field in table.spec().fields:  # a file lies in one partition
            name = names[field.source_id]
            place = held.column_names.index(name)
            column = held.column(name)
            one = pa.array([column[0].as_py()] * len(held), column.type)
            held = held.set_column(place, held.schema.field(name), one)
        self.number += 1
        path = self.place / f"added {self.number}.parquet"
        plain = [pa.field(field.name, field.type) for field in held.schema]
        pq.write_table(held.cast(pa.schema(plain)), path)
        table.add_files([f"file://{path}"])

    def _update(self, change):
        with self.table.update_schema(allow_incompatible_changes=True) as update:
            change(update)

    def widen(self):
        self._update(lambda update: update.update_column("added", LongType()))

    def add_column(self):
        if "extra" not in self.ids:
            self._update(lambda update: update.add_column("extra", LongType()))

    def drop_column(self):
        for name in ("extra", "leaf", "page"):
            if name in self.ids:
                self._update(lambda update, name=name: update.delete_column(name))
                return

    def add_page(self):
        """Add a column under a name that another may have had."""
        if "page" not in self.ids:
            self._update(lambda update: update.add_column("page", StringType()))

    def rename(self):
        for old, new in (("page", "leaf"), ("leaf", "page")):
            if old in self.ids and new not in self.ids:
                self._update(lambda update, old=old, new=new: update.rename_column(old, new))
                return

    def exchange(self):
        """Give two columns each other's name."""
        if "page" in self.ids:
            for old, new in (("city", "between"), ("page", "city"), ("between", "page")):
                self._update(lambda update, old=old, new=new: update.rename_column(old, new))

    def roll_back(self):
        table = self.table
        if table.history():
            one = table.history()[int(self.random.integers(len(table.history())))]
            table.manage_snapshots().set_current_snapshot(one.snapshot_id).commit()

    def expire(self):
        table = self.table
        current = table.current_snapshot()
        gone = [one.snapshot_id for one in table.snapshots() if one != current]
        if gone:
            table.maintenance.expire_snapshots().by_ids(gone[: len(gone) // 2]).commit()

    STEPS = (
        *("append", "append", "overwrite", "overwrite_some", "delete", "compact", "expire"),
        *("widen", "add_column", "drop_column", "add_page", "rename", "roll_back", "roll_back"),
    )
    # pyiceberg maps a name to two ids when columns exchange theirs.
    FURTHER = ("exchange", "add_file")

    def ask(self, text, names=None):
        """Return the rows of a statement over pyiceberg's own scan, by DuckDB.

        Parameters
        ----------
        names : dict of str to int, or None
            Ids of columns by the names that the statement has for them; None: as they are.
        """
        table = self.table
        own = {number: name for name, number in self.ids.items()}
        names = self.ids if names is None else names
        held = table.scan().to_arrow()
        listed = {name: held.column(own[n]) for name, n in names.items() if n in own}
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("t", pa.table(listed))
            return comparable(connection.execute(text).fetchall())

    def data_files(self):
        """Return what a snapshot lists, as entries of manifests."""
        table = self.table
        found = table.current_snapshot().manifests(table.io)
        return [one for each in found for one in each.fetch_manifest_entry(table.io)]

    def publish(self, files, deletes=(), *, summary=None, counts=None, sequence=2):
        """Make a snapshot by hand, of any files.

        Parameters
        ----------
        files, deletes : iterable of dict
            Fields of `DataFile`.
        summary : dict or None
            What the snapshot sums up.
        counts : dict or None
            What the list of manifests says of them, otherwise than it is, by place of a field.
        """
        table = self.table
        snapshot_id, folder = 7_000_000 + self.number, f"{self.place}/by hand {self.number}"
        self.number += 1
        Path(folder).mkdir()
        manifests = []
        for number, (writer, listed) in enumerate(((_Data, files), (_Deletes, deletes))):
            if not listed:
                continue
            output = table.io.new_output(f"file://{folder}/{number}.avro")
            made = writer(table.spec(), table.schema(), output, snapshot_id, "deflate")
            with made:
                for one in listed:
                    made.add_entry(
                        ManifestEntry.from_args(
                            status=ManifestEntryStatus.EXISTING,
                            snapshot_id=snapshot_id,
                            sequence_number=one.get("sequence", 1),
                            file_sequence_number=1,
                            data_file=_data_file(one),
                        )
                    )
            manifest = made.to_manifest_file()
            for place, value in (counts or {}).items():
                manifest[place] = value
            manifests.append(manifest)
        path = f"file://{folder}/list.avro"
        output = table.io.new_output(path)
        with write_manifest_list(2, output, snapshot_id, None, sequence, "deflate") as written:
            written.add_manifests(manifests)
        stated = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": stated["last-updated-ms"],
            "manifest-list": path,
            "summary": {"operation": "overwrite", **(summary or {})},
            "schema-id": stated["current-schema-id"],
        }
        stated["snapshots"].append(snapshot)
        stated["current-snapshot-id"] = snapshot_id
        stated["last-sequence-number"] = max(sequence, stated["last-sequence-number"])
        stated["refs"]["main"] = {"snapshot-id": snapshot_id, "type": "branch"}
        self.replace_metadata(stated)

    def replace_metadata(self, stated):
        """Write a table's metadata as they are given, and have the catalog name them."""
        self.number += 1
        path = self.place / f"by hand {self.number}.metadata.json"
        path.write_text(json.dumps(stated))
        with closing(sqlite3.connect(self.place / "catalog.db")) as connection:
            connection.execute(
                "UPDATE iceberg_tables SET metadata_location = ?", (f"file://{path}",)
            )
            connection.commit()


class _Data(ManifestWriterV2):
    pass


class _Deletes(ManifestWriterV2):
    def content(self):
        return ManifestContent.DELETES


def _data_file(fields):
    given = {
        "content": DataFileContent.DATA,
        "file_format": FileFormat.PARQUET,
        "partition": Record(),
        "record_count": 1,
        "file_size_in_bytes": 1,
        **{name: value for name, value in fields.items() if name != "sequence"},
    }
    return DataFile.from_args(**given)
