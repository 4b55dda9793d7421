"""The cache keeps what is used, within a byte budget that counts everything."""

import os
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import projseg
from projseg.errors import InvalidInputError
from projseg.memory.cache import ENTRY_BYTES, Cache, Owner
from projseg.memory.memory_pool import parse_byte_count


def sized(*bytes_of_entries):
    """The budget that just holds entries of these bytes."""
    return sum(bytes_of_entries) + ENTRY_BYTES * len(bytes_of_entries)


def test_the_least_recently_used_entry_goes_first():
    cache = Cache(sized(40, 40))
    for name in "abc":
        cache.put((name,), name.upper(), 40)
    assert cache.get(("a",)) is None
    assert (cache.get(("b",)), cache.get(("c",))) == ("B", "C")
    cache.get(("b",))
    cache.put(("d",), "D", 40)
    assert cache.get(("c",)) is None
    assert cache.get(("b",)) == "B"
    found = cache.statistics()
    assert (found.entry_count, found.byte_count, found.eviction_count) == (2, sized(40, 40), 2)
    assert found.bytes_by_kind == {"b": sized(40), "d": sized(40)}


def test_an_entry_larger_than_the_budget_is_not_kept():
    cache = Cache(sized(10))
    assert cache.get_or_load(("a",), lambda: "A", lambda _: 11) == "A"
    assert cache.statistics().entry_count == 0


def test_the_first_of_two_values_stays():
    cache = Cache(sized(10))
    assert cache.put(("a",), "first", 1) == "first"
    assert cache.put(("a",), "second", 1) == "first"
    cache.replace(("a",), "third", 1)
    assert cache.get(("a",)) == "third"


def test_an_entry_that_grows_past_the_budget_goes():
    cache = Cache(sized(40, 40))
    owner, stranger = Owner(("a",)), Owner(("a",))
    cache.put(("a",), "a", 40, stands_for=owner)
    cache.put(("b",), "b", 40)
    cache.resize(owner, 80)
    assert (("a",) in cache, ("b",) in cache) == (True, False)
    cache.resize(stranger, 1)
    assert cache.statistics().byte_count == sized(80)
    cache.resize(owner, 10_000)
    assert cache.statistics().byte_count == 0


def test_parts_stay_no_longer_than_their_owner():
    cache = Cache(sized(40, 40, 40))
    owner, stranger = Owner(("whole",)), Owner(("whole",))
    cache.put(owner.key, "whole", 40, stands_for=owner, parts_bytes_max=sized(40, 40))
    cache.put(("part", 1), 1, 40, owners=(owner,))
    cache.put(("part", 2), 2, 1, owners=(stranger,))
    assert ("part", 2) not in cache, "its owner is not what is kept by that key"
    cache.put(("other",), "other", 40)
    cache.get(("part", 1))
    cache.put(("more",), "more", 40)
    assert owner.key in cache, "used as often as its parts"
    assert ("other",) not in cache
    assert cache.put(("part", 3), 3, 41, owners=(owner,)) == 3
    assert ("part", 3) not in cache, "more than the owner's parts may take"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "get", "resize", "part"]), st.integers(0, 9), st.integers(0, 99)
        ),
        max_size=60,
    )
)
def test_counts_are_true_and_parts_never_outlive_what_they_belong_to(steps):
    cache = Cache(sized(40, 40, 40))
    owners = [Owner(("whole", n)) for n in range(10)]
    for step, n, size in steps:
        if step == "put":
            cache.put(owners[n].key, n, size, stands_for=owners[n])
        elif step == "get":
            cache.get(("part", n, size % 3))
        elif step == "resize":
            cache.resize(owners[n], size)
        else:
            cache.put(("part", n, size % 3), n, size, owners=(owners[n],))
        found = cache.statistics()
        assert 0 <= found.byte_count == sum(found.bytes_by_kind.values()) <= found.budget_bytes
        assert found.byte_count >= ENTRY_BYTES * found.entry_count
        for part in [("part", m, i) for m in range(10) for i in range(3)]:
            assert part not in cache or ("whole", part[1]) in cache


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("4096", 4096),
        (" 4G ", 4 << 30),
        ("512m", 512 << 20),
        ("16 KiB", 16 << 10),
        ("1TB", 1 << 40),
        ("7b", 7),
    ],
)
def test_sizes_are_read_as_people_write_them(text, expected):
    assert parse_byte_count(text, "X") == expected


@pytest.mark.parametrize("text", ["", "G", "-1", "1.5G", "4GG", "0x10", "many", "9" * 30])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InvalidInputError, match="takes a number of bytes"):
        parse_byte_count(text, "PROJSEG_CACHE_BYTES")


SETTING = """
import sys
import pyarrow as pa, projseg
rows = pa.table({"x": [1, 2]})
table = projseg.Table.create(sys.argv[1], rows.schema)
table.append(rows)
assert table.query(aggregators="sum(x) AS s").to_pylist() == [{"s": 3}]
print(projseg.cache_statistics().budget_bytes)
"""


@pytest.mark.parametrize(
    ("setting", "code", "expected"),
    [("3G", 0, str(3 << 30)), ("0", 0, "0"), ("lots", 1, "PROJSEG_BAD_OPTION")],
)
def test_the_setting_of_the_budget(tmp_path, setting, code, expected):
    done = subprocess.run(
        [sys.executable, "-c", SETTING, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PROJSEG_CACHE_BYTES": setting},
    )
    assert done.returncode == code
    assert expected in done.stdout + done.stderr.splitlines()[-1] if code else done.stdout


@pytest.mark.parametrize(
    ("limit", "share"), [("1073741824\n", 1 << 28), ("max\n", None), ("2000000000000000", None)]
)
def test_the_budget_is_a_share_of_what_the_control_group_may_take(
    tmp_path, monkeypatch, limit, share
):
    from projseg.memory import cache, memory_pool

    place = tmp_path / "memory.max"
    place.write_text(limit)
    monkeypatch.delenv("PROJSEG_CACHE_BYTES", raising=False)
    monkeypatch.setattr(memory_pool, "_CONTROL_GROUP_LIMIT", place)
    memory_pool.quarter_of_memory.cache_clear()
    of_machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    try:
        assert cache._budget_of_environment() == (share or min(4 << 30, of_machine))
    finally:
        memory_pool.quarter_of_memory.cache_clear()


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
    assert {"segment", "column", "plan", "manifest"} <= after.bytes_by_kind.keys()


def test_what_a_fork_brought_stays_and_is_not_counted():
    cache = Cache(10 * sized(40))
    owner = Owner(("a",))
    cache.put(("a",), "A", 40, stands_for=owner)
    cache.put(("b",), "B", 40, owners=(owner,))
    cache.keep_inherited(2)
    assert cache.statistics() == Cache(4 * sized(40)).statistics()
    for name in "cdefg":
        cache.put((name,), name.upper(), 40, owners=(owner,))
    assert [name for name in "abcdefg" if (name,) in cache] == list("abdefg")
    assert (cache.get(("a",)), cache.put(("b",), "other", 40)) == ("A", "B")
    assert cache.statistics().byte_count == 4 * sized(40)
    cache.resize(owner, 80)  # only its growth is this process's own
    assert [name for name in "abcdefg" if (name,) in cache] == list("abefg")
    assert cache.statistics().byte_count == 3 * sized(40) + 40
    cache.replace(("b",), "newer", 1)
    assert cache.get(("b",)) == "newer"
    cache.clear()
    assert cache.statistics().byte_count == 0
    assert cache.get(("a",)) is None


def test_a_full_parent_leaves_its_children_a_quarter_of_its_budget():
    cache = Cache(sized(40))
    cache.put(("a",), "A", 40)
    cache.keep_inherited(2)
    assert cache.statistics().budget_bytes == sized(40) // 8
