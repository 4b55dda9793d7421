import pyarrow as pa

import projseg
from projseg.aggregation.part_cache import PartCache


def test_the_least_recently_used_part_goes_first():
    cache = PartCache(100)
    for name in "abc":
        cache.put(name, name.upper(), 40)
    assert cache.get("a") is None
    assert (cache.get("b"), cache.get("c")) == ("B", "C")
    cache.get("b")
    cache.put("d", "D", 40)
    assert cache.get("c") is None
    assert cache.get("b") == "B"
    found = cache.statistics()
    assert (found.entry_count, found.byte_count, found.eviction_count) == (2, 80, 2)


def test_a_part_larger_than_the_budget_is_not_kept():
    cache = PartCache(10)
    assert cache.get_or_load("a", lambda: "A", lambda _: 11) == "A"
    assert cache.statistics().entry_count == 0


def test_asking_again_reads_nothing_again(tmp_path):
    rows = pa.table({"channel": ["a", "b"] * 50, "added": range(100)})
    table = projseg.Table.create(tmp_path / "t", rows.schema)
    table.append(rows)
    question = {"group_by": "channel", "aggregators": "sum(added) AS s"}
    first = table.query(**question)
    before = projseg.cache_statistics()
    assert table.query(**question).equals(first)
    after = projseg.cache_statistics()
    assert after.miss_count == before.miss_count
    assert after.hit_count > before.hit_count
