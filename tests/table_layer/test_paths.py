"""Only names that this package makes are names; nothing else reaches the file system."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_tables import new_table

from projseg.errors import InvalidInputError, StorageError, UnsupportedFeatureError
from projseg.table_layer.storage import paths
from projseg.table_layer.storage.locate_storage import open_storage

WRITE_ID = "0123456789abcdef0123456789abcdef"
GOOD = f"data/{WRITE_ID}-1-2-3.pseg"

HOSTILE = [
    "",
    ".",
    "..",
    "/",
    "data",
    "data/",
    "data/..",
    "../data/x",
    "/etc/passwd",
    "//etc/passwd",
    "data/../../../etc/passwd",
    "data//etc/passwd",
    f"/{GOOD}",
    f"./{GOOD}",
    f"data/../{GOOD}",
    f"data/./{WRITE_ID}-1-2-3.pseg",
    f"data/{WRITE_ID}-1-2-3.pseg/..",
    f"data/{WRITE_ID}-1-2-3.pseg/",
    f"data/{WRITE_ID}-1-2-3.pseg\0",
    f"data/{WRITE_ID}-1-2-3.pseg\n",
    f"\n{GOOD}",
    f"data/{WRITE_ID}-1-2-3.PSEG",
    f"DATA/{WRITE_ID}-1-2-3.pseg",
    f"data\\{WRITE_ID}-1-2-3.pseg",
    f"data/{WRITE_ID.upper()}-1-2-3.pseg",
    f"data/{WRITE_ID}-01-2-3.pseg",
    f"data/{WRITE_ID}-1-2.pseg",
    f"data/{WRITE_ID}-1-2-3-4.pseg",
    f"data/{WRITE_ID}--1-2-3.pseg",
    f"data/{WRITE_ID}-1-2-+3.pseg",
    f"data/{WRITE_ID}-1-2-\u0663.pseg",
    f"data/{WRITE_ID}-1-2-9223372036854775808.pseg",
    f"data/{WRITE_ID}-1-2-99999999999999999999.pseg",
    f"data/{WRITE_ID[:-1]}-1-2-3.pseg",
    f"data/{WRITE_ID}0-1-2-3.pseg",
    "C:\\windows\\system32",
    "C:data",
    "file:///etc/passwd",
    "s3://bucket/data",
    "http://example.org/x.pseg",
    "data/%2e%2e/x.pseg",
    "data/\u2024\u2024/x.pseg",
    "~/x.pseg",
    "$HOME/x.pseg",
    "_projseg/1.json",
    "_projseg/10000000000000000000.json",
    "_projseg/0000000000000000000a.json",
    "_projseg/../data/x.pseg",
    f"_projseg/manifests/../{WRITE_ID}.json",
    f"_projseg/manifests/{WRITE_ID}.json.bak",
    f"_projseg/{WRITE_ID}.json",
    f"{GOOD}.tmp",
    f"data/{WRITE_ID}.pdel",
    f"data/{WRITE_ID}-1-2-3.pdel",
    f"data/{WRITE_ID}-{WRITE_ID}.pseg",
    f"_projseg/{WRITE_ID}-{WRITE_ID}.pdel",
    f"{GOOD}.0123456789abcdeg.tmp",
    "/etc/passwd.0123456789abcdef.tmp",
    "nul",
    "con.pseg",
    "data/" + "a" * 5000,
]


class FileWatcher:
    """Collects what Python opens, removes or lists while it is entered."""

    EVENTS = ("open", "os.remove", "os.link", "os.scandir", "os.mkdir")

    def __init__(self):
        self.seen = None
        sys.addaudithook(self.hear)  # there is no way to remove a hook: one for the module

    def hear(self, event, arguments):
        if self.seen is not None and event in self.EVENTS:
            self.seen.append((event, arguments))

    def __enter__(self):
        self.seen = []
        return self.seen

    def __exit__(self, *_):
        self.seen = None


WATCHER = FileWatcher()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_reach_nothing(name, tmp_path):
    storage, _ = new_table(tmp_path / "t")
    with WATCHER as seen:
        for use in (
            storage.size,
            lambda n: storage.read_range(n, 0, 1),
            lambda n: storage.put_if_absent(n, b""),
            lambda n: storage.create(n).__enter__(),
            storage.delete,
        ):
            with pytest.raises(InvalidInputError, match="PROJSEG_BAD_FILE_NAME"):
                use(name)
        if name != paths.DATA_PREFIX:
            with pytest.raises(InvalidInputError, match="PROJSEG_BAD_FILE_NAME"):
                list(storage.list_names(name))
    assert seen == []
    assert paths.parse_segment_name(name) is None
    assert not paths.is_own_name(name)


def test_the_watcher_sees_what_is_opened(tmp_path):
    storage, _ = new_table(tmp_path / "t")
    with WATCHER as seen:
        storage.size(paths.snapshot_name(0))
    assert seen


def test_listing_passes_over_foreign_files_and_links(tmp_path):
    storage, _ = new_table(tmp_path / "t")
    folder = tmp_path / "t" / "data"
    folder.mkdir()
    (folder / "notes.txt").write_text("foreign")
    (folder / "deep").mkdir()
    (tmp_path / "canary").write_text("outside")
    (folder / f"{WRITE_ID}-0-0-0.pseg").symlink_to(tmp_path / "canary")
    storage.put_if_absent(GOOD, b"ours")
    (file,) = storage.list_names(paths.DATA_PREFIX)
    assert file[:2] == (GOOD, 4)
    every = {file.name for file in storage.list_names(paths.METADATA_PREFIX)}
    assert every == {paths.snapshot_name(0)}
    with pytest.raises(StorageError, match="PROJSEG_NOT_A_FILE"):
        storage.size(f"data/{WRITE_ID}-0-0-0.pseg")


def test_the_files_of_one_write_are_listed_alone(tmp_path):
    storage, _ = new_table(tmp_path / "t")
    other = f"data/{'f' * 32}-1-2-3.pseg"
    for name in (GOOD, other):
        storage.put_if_absent(name, b"ours")
    (file,) = storage.list_names(paths.prefix_of_write("f" * 32))
    assert file.name == other
    assert list(storage.list_names(paths.prefix_of_write("e" * 32))) == []
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_WRITE_ID"):
        paths.prefix_of_write("../" + "f" * 29)


def test_a_linked_folder_is_not_entered(tmp_path):
    storage, _ = new_table(tmp_path / "t")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / f"{WRITE_ID}-1-2-3.pseg").write_text("outside")
    (tmp_path / "t" / "data").symlink_to(outside)
    for use in (storage.size, storage.delete, lambda n: storage.read_range(n, 0, 1)):
        with pytest.raises(StorageError, match="PROJSEG_NOT_A_FILE"):
            use(GOOD)
    with pytest.raises(StorageError, match="PROJSEG_NOT_A_FILE"):
        list(storage.list_names(paths.DATA_PREFIX))
    assert len(list(outside.iterdir())) == 1


def test_names_of_our_own_are_known():
    made = [
        paths.segment_name(WRITE_ID, 0, 2**63 - 1, 7),
        paths.new_vector_name(WRITE_ID),
        paths.snapshot_name(0),
        paths.snapshot_name(10**18),
        paths.new_manifest_name(),
        paths.new_probe_name(),
    ]
    for name in made:
        assert paths.check_name(name) == name
        assert not paths.is_temporary(name)
        assert paths.is_temporary(paths.temporary_name(name))
        assert paths.is_own_name(paths.temporary_name(name))
        assert not paths.is_own_name(paths.temporary_name(paths.temporary_name(name)))


@given(*[st.integers(0, 2**63 - 1)] * 3)
def test_segment_names_round_trip(partition, attempt, number):
    name = paths.segment_name(WRITE_ID, partition, attempt, number)
    parsed = paths.parse_segment_name(name)
    assert parsed == paths.SegmentName(WRITE_ID, partition, attempt, number)
    assert str(parsed) == name


@given(st.text(max_size=80))
def test_random_text_is_no_name(text):
    assert not paths.is_own_name(text)


@pytest.mark.parametrize("number", [-1, 2**63])
def test_numbers_outside_int64_make_no_name(number):
    with pytest.raises(InvalidInputError):
        paths.segment_name(WRITE_ID, number, 0, 0)


@pytest.mark.parametrize("write_id", ["", "x" * 32, WRITE_ID + "\n", WRITE_ID.upper()])
def test_bad_write_ids(write_id):
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_WRITE_ID"):
        paths.check_write_id(write_id)


def test_locations(tmp_path):
    assert open_storage(tmp_path) == open_storage(f"file://{tmp_path}")
    assert open_storage(f"file:{tmp_path}").location == str(tmp_path)
    assert open_storage(f"file://localhost{tmp_path}/a%20b").location == f"{tmp_path}/a b"
    for location in ("ftp://h/t", "hdfs://h/t", "http://h/t"):
        with pytest.raises(UnsupportedFeatureError, match="PROJSEG_UNSUPPORTED_STORAGE"):
            open_storage(location)
    for location in ("", "  ", "a\0b", "file://host/t", "file:t", "file:///a?b=c", "file:///%00"):
        with pytest.raises(InvalidInputError, match="PROJSEG_BAD_LOCATION"):
            open_storage(location)
