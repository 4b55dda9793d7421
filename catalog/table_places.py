"""`TablePlaces`: where the tables of a catalog lie."""

from __future__ import annotations

from projseg.catalog.external.allowed_places import check_location
from projseg.catalog.store.store_contract import Store
from projseg.catalog.store.table_metadata import Name, TableMetadata
from projseg.errors import CatalogError, UnsupportedFeatureError
from projseg.table_layer.removal import remove_table
from projseg.table_layer.storage.locate_storage import open_storage
from projseg.table_layer.storage.storage_contract import Storage
from projseg.table_layer.storage.store_location import StorageOptionsLike


class TablePlaces:
    """The folders of a tenant's tables, reached by storage options as in `Table`.

    Managed tables are in the warehouse, a folder or prefix; without one the catalog makes no table.
    """

    def __init__(
        self, store: Store, warehouse: str | None, storage_options: StorageOptionsLike | None
    ) -> None:
        self.store, self.warehouse, self._options = store, warehouse, storage_options

    def of_store(self, store: Store, warehouse: str | None) -> TablePlaces:
        """Return the places of another tenant; without a warehouse of its own in the same one."""
        return TablePlaces(store, warehouse or self.warehouse, self._options)

    def open(self, location: str) -> Storage:
        """Return the storage of a location."""
        return open_storage(location, self._options)

    def storage_of(self, definition: TableMetadata) -> Storage:
        """Return the storage of a definition's table, which must lie where tables may."""
        if definition.location is None:
            raise UnsupportedFeatureError(
                "PROJSEG_UNSUPPORTED_FEATURE",
                f"'{definition.full_name}' defines files from outside ({definition.type}) and is "
                "no table; use read",
            )
        roots = self.store.roots
        if roots is not None and not definition.managed:
            check_location(definition.location, roots)
        return self.open(definition.location)

    def new_location(self, name: Name, definition: str) -> str:
        """Return where a new table lies: a place that no other definition ever has."""
        if self.warehouse is None:
            raise CatalogError(
                "PROJSEG_BAD_ARGUMENT",
                f"'{name}' needs a place, and the catalog was opened without a warehouse; name "
                "one, or register a location",
            )
        root = self.open(self.warehouse).location
        return f"{root}/{self.store.tenant}/{name.namespace}/{name.name}-{definition[:8]}"

    def remove_own(self, definition: TableMetadata) -> None:
        """Remove a definition's table, if its place is one that this catalog gives."""
        if definition.location is not None and self._is_own(definition):
            remove_table(self.open(definition.location))

    def _is_own(self, definition: TableMetadata) -> bool:
        place = str(definition.location)
        root = self.open(self.warehouse or self.store.warehouse or place).location
        is_below = place.startswith(f"{root}/{self.store.tenant}/")
        return definition.managed and is_below and place.endswith(f"-{definition.id[:8]}")
