"""Random stars: DuckDB over the rows, and every mix of sources, agree."""

import random
from collections import Counter
from contextlib import contextmanager

import duckdb
import pytest
from scale import tries
from star_cases import PROJECTIONS, SCHEMAS, Star, rows_of

import projseg

STARS = tries(400, 6)
STATEMENTS_A_STAR = 20
COUNTED = Counter()


@contextmanager
def stars(tmp_path, rng, **odd):
    rows = rows_of(rng, **odd)
    tables = {}
    for name, schema in SCHEMAS.items():
        options = {}
        if name == "edits":
            options = {"time_column": "time", "segment_granularity": "day",
                       "projections": PROJECTIONS}  # fmt: skip
        table = projseg.Table.create(tmp_path / name, schema, **options)
        half = rows[name].num_rows // 2
        table.append(rows[name].slice(0, half))
        table.append(rows[name].slice(half))
        tables[name] = table
    with duckdb.connect() as peer:
        peer.execute("SET TimeZone = 'UTC'")
        for name, table in rows.items():
            peer.register(name, table)
        yield tables, peer


def as_rows(table):
    return Counter(tuple(row.values()) for row in table.to_pylist())


def is_refused(text, tables):
    """Whether a row may match several, as it may where a key is there twice."""
    try:
        projseg.sql(text, tables, explain=True)
    except projseg.ProjsegError as error:
        return error.code == "PROJSEG_JOIN_KEY_NOT_UNIQUE"
    return False


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(STARS))
def test_duckdb_agrees(tmp_path, seed):
    rng = random.Random(seed)
    odd = {"doubled": seed % 5 == 3, "empty": seed % 7 == 4}
    with stars(tmp_path, rng, **odd) as (tables, peer):
        for _ in range(STATEMENTS_A_STAR):
            text, theirs = Star(rng).texts()
            if odd["doubled"] and is_refused(text, tables):
                COUNTED["refused"] += 1
                continue
            found = projseg.sql(text, tables)
            expected = as_rows(peer.sql(theirs).to_arrow_table())
            assert as_rows(found) == expected, text
            plain = projseg.sql(text, tables, context={"noProjections": True})
            assert as_rows(plain) == expected, text
            sources = projseg.sql(text, tables, explain=True).sources
            COUNTED["asked"] += 1
            COUNTED["projections"] += any(name != "base" for name in sources)


def test_projections_answered_many():
    if not COUNTED:
        pytest.skip("counts what the tests above asked")
    assert COUNTED["projections"] > COUNTED["asked"] / 4, COUNTED
