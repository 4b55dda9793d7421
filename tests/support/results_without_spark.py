"""Stored results whose SELECT this process runs in the place of Spark, so that it can be killed."""

import hashlib

import projseg
from projseg.algebra.query.context import QueryContext
from projseg.table.stored_view import StoredView
from projseg.table.table_version import reader_of, state_of
from projseg.table.view_edits import new_view
from projseg.views.definitions.result_definition import ResultDefinition, define_result
from projseg.views.refresh_work import Work
from projseg.views.stored_results import AskedSelect, answering_results, table_of_result

SESSION = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}


def runs(options=None):
    """Return what runs SELECTs as Spark does for a view: rows of pinned tables become a table."""

    def run(job):
        tables = {
            name: projseg.Table(
                place["location"], version=place["version"], storage_options=options
            )
            for name, place in job["tables"].items()
        }
        if job["target"] is not None:
            rows = projseg.sql(job["select"], tables, context={"noViews": True})
            numbered = rows.rename_columns([f"c{n}" for n in range(rows.num_columns)])
            projseg.Table.create(
                job["target"], numbered.schema, data=numbered, storage_options=options
            )
        return {
            "selected": {
                "nomination": nomination_of(job["select"]),
                "is_ordered": False,
                "session": SESSION,
                "columns": {name: table.schema.names for name, table in tables.items()},
            }
        }

    return run


def nomination_of(select):
    return hashlib.md5(select.encode()).hexdigest()


def create_result(table, name, select, tables, run, **arguments):
    """Make a stored result of a SELECT over tables by their names in it."""
    snapshots = {name: one.snapshot for name, one in tables.items()}
    definition = define_result(select, snapshots, table.snapshot, run)
    return new_view(state_of(table), name, definition, {}, run_select=run, **arguments)


def refresh_result(table, name, run, full=False):
    work = Work(full, run_select=run)
    return StoredView.named(state_of(table), name).refresh(work, dry_run=False)


def stored_rows(table, select, tables):
    """Return the rows that a stored result has for a SELECT; None where none may answer."""
    store = reader_of(table).view_store()
    if store is None:
        return None
    asked = AskedSelect(
        nomination_of(select),
        {one.snapshot.properties.table_id: one.snapshot for one in tables.values()},
        SESSION,
        QueryContext(),
    )
    found, _ = answering_results(store, table.snapshot, asked)
    if not found:
        return None
    assert ResultDefinition.of(found[0].view).select == select
    snapshot = table_of_result(store.storage, found[0].result)
    options = getattr(snapshot.storage, "options", None)
    rows = projseg.Table(snapshot.storage.location, storage_options=options).sql("SELECT * FROM r")
    return sorted(map(repr, zip(*(one.to_pylist() for one in rows.columns), strict=True)))


def wanted_rows(select, tables):
    """Return the rows of a SELECT without views."""
    rows = projseg.sql(select, tables, context={"noViews": True})
    return sorted(map(repr, zip(*(one.to_pylist() for one in rows.columns), strict=True)))
