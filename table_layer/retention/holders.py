"""Which kept versions and tags need each file of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from projseg.table_layer.metadata.snapshot import Snapshot, open_snapshot


@dataclass(slots=True)
class Holders:
    """The versions of a table that can be read, and the files that each needs.

    Parameters
    ----------
    newest : Snapshot
        The newest version.
    earlier : list of Snapshot
        The others that retention or a tag keeps, the newest first.
    """

    newest: Snapshot
    earlier: list[Snapshot]
    _versions: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, newest: Snapshot) -> Holders:
        """Return them as the newest version knows them."""
        log = range(newest.kept_from, newest.version)
        versions = sorted({*log, *(v for v in newest.tags.values() if v != newest.version)})
        earlier = [open_snapshot(newest.storage, version) for version in reversed(versions)]
        holders = cls(newest, earlier)
        for snapshot in (newest, *earlier):
            for reference in snapshot.file.manifests:
                for file in (reference.name, *snapshot.load(reference).files()):
                    holders._versions.setdefault(file, []).append(snapshot.version)
        return holders

    def versions_of(self, file: str) -> list[int]:
        """Return the versions that need a segment, a deletion vector or a manifest."""
        return self._versions.get(file, [])

    def tags_of(self, versions: list[int]) -> list[str]:
        """Return the tags of some versions."""
        return [tag for tag, version in self.newest.tags.items() if version in versions]

    def others(self) -> Iterator[Snapshot]:
        """Yield the earlier versions that list other segments than the newest."""
        same = set(self.newest.file.manifests)
        for snapshot in self.earlier:
            if not same.issuperset(snapshot.file.manifests):
                yield snapshot
