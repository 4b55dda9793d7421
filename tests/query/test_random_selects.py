"""Random SELECTs of every shape: DuckDB over the rows, and every mix of sources, agree."""

import pyarrow as pa
from hypothesis import given, settings
from query_cases import SCHEMA
from scale import IS_NIGHTLY, tries
from select_asking import assert_answers, rows_of, tables_of
from select_cases import STORED_ROWS, selects
from select_texts import KEYS
from sql_statements import duckdb_over

TABLES = tries(200, 2)
SELECTS_A_TABLE = 20 if IS_NIGHTLY else 12


def answer_of(peer, select):
    """Return DuckDB's rows, but for its group of the empty set where no row is left."""
    peer.execute(f"SET TimeZone = '{select.zone}'")
    kept = f"SELECT 1 FROM edits WHERE {select.where or 'TRUE'} LIMIT 1"
    if select.has_sets and not peer.sql(kept).fetchall():
        return []
    return rows_of(peer.sql(select.peer).to_arrow_table())


def without(data, deleted):
    with duckdb_over(data) as peer:
        kept = peer.sql(f"SELECT * FROM edits WHERE ({deleted.peer}) IS NOT TRUE")
        return kept.to_arrow_table().cast(SCHEMA)


@settings(max_examples=TABLES)
@given(STORED_ROWS, selects(KEYS, SELECTS_A_TABLE))
def test_duckdb_agrees(stored, asked):
    data = pa.Table.from_pylist(stored.rows, SCHEMA)
    with tables_of(stored, data) as (whole, mixed):
        for table, rows in ((whole, data), (mixed, without(data, stored.deleted))):
            with duckdb_over(rows) as peer:
                for select in asked:
                    assert_answers(table, select, answer_of(peer, select))
