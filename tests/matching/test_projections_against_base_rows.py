"""A query has one answer, whether projections serve it or not, on any mix of segments."""

import collections

from matching_tables import answer, make_query, make_table, random_of
from scale import tries

TABLES = tries(300, 6)
QUERIES_A_TABLE = 16


def test_projections_and_base_rows_agree(tmp_path, dear_base_rows):
    sources = collections.Counter()
    for seed in range(TABLES):
        r = random_of(seed)
        table, declared = make_table(r, str(tmp_path / str(seed)))
        for _ in range(QUERIES_A_TABLE):
            query, context = make_query(r, declared)
            expected = answer(table, query, {**context, "noProjections": True})
            found = answer(table, query, context)
            is_raised_by_base_rows_only = isinstance(expected, str) and isinstance(found, list)
            assert found == expected or is_raised_by_base_rows_only, (seed, query, context)
            forced = answer(table, query, {**context, "forceProjections": True})
            assert forced in (found, "PROJSEG_PROJECTION_NOT_USABLE"), (seed, query, context)
            if isinstance(found, list):
                segments = table.explain(**query, context=context).segments
                sources.update(segments["source"].to_pylist())
    assert sources[None] > 0
    assert sources["metadata"] > 0
    from_projections = sources.total() - sources[None] - sources["metadata"]
    assert from_projections > sources.total() / 10, sources
