"""Whatever a file of a table says, with every checksum right: an error of ours or an answer.

Each case changes a few fields anywhere in snapshot, manifests, footers, directories or parts, seals
the files again and uses the table in every way: all queries, explain, verify, inspect. That happens
in a process whose address space is limited, so that a size that is believed is a MemoryError.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forged_tables import Lie, Original
from scale import tries
from using_tables import raw_errors, seeded, sound_table

TESTS = Path(__file__).parents[1]
BUDGET_BYTES = 512 * 2**20
SCRIPT = """
import json, resource, shutil, sys
from pathlib import Path
from forged_tables import Original
from scale import tries
from using_tables import raw_errors, seeded

folder, seed, count, lies_each, budget = json.loads(sys.argv[1])
folder = Path(folder)
original = Original(folder / "sound")
raw_errors(folder / "sound")  # compiles what compiles before memory is limited
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + budget, used + budget))
try:
    bytearray(2 * budget)
    sys.exit("the limit does not hold")
except MemoryError:
    pass
random = seeded(seed)
lies = original.lies(random, count * lies_each)
found = {}
for number in range(count):
    case = lies[number * lies_each : (number + 1) * lies_each]
    location = folder / f"{seed} {number}"
    original.forged(location, case)
    if raw := raw_errors(location):
        found[f"{number}: " + "; ".join(map(str, case))] = raw
    shutil.rmtree(location)
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forged")
    sound_table(folder / "sound")
    return folder


def forge(folder, seed, count, lies_each, **environment):
    """Return what is not an error of ours, by case."""
    paths = [str(TESTS / name) for name in ("support", "oracle")]
    arguments = json.dumps([str(folder), seed, count, lies_each, BUDGET_BYTES])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}\n{SCRIPT}", arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PROJSEG_CACHE_BYTES": str(32 * 2**20), **environment},
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    return json.loads(done.stdout.splitlines()[-1])


def test_a_table_forged_without_a_lie_answers_everything(folder):
    Original(folder / "sound").forged(folder / "same", [])
    assert raw_errors(folder / "same") == {}


def test_lies_are_of_every_kind_of_file_and_field(folder):
    original = Original(folder / "sound")
    lies = original.lies(seeded(1), 2000)
    kinds = {original.kind(lie.place) for lie in lies if lie.place[1] != "bytes"}
    assert kinds == {original.kind(place) for place, _ in original.places()}
    assert {lie.place[0] for lie in lies if lie.place[1] == "bytes"} == set(original.parts)


def test_only_errors_of_ours_leave_a_reader(folder):
    assert forge(folder, seed=1, count=40, lies_each=1) == {}


def test_a_minimum_of_a_dictionary_is_of_any_size(folder):
    original = Original(folder / "sound")
    keys = ("dictionaries", "pages", "minimum")
    pages = [place for place, _ in original.places() if place[1::2] == keys]
    assert pages
    for number, place in enumerate(one for one in pages if one[0] == pages[0][0]):
        original.forged(folder / f"minimum {number}", [Lie(place, -1)])
        assert raw_errors(folder / f"minimum {number}") == {}, place


@pytest.mark.slow
@pytest.mark.parametrize("lies_each", [1, 3])
@pytest.mark.parametrize("seed", range(100, 110))
def test_only_errors_of_ours_leave_a_reader_at_length(folder, seed, lies_each):
    assert forge(folder, seed, count=tries(500), lies_each=lies_each) == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [200, 201])
def test_no_kernel_leaves_its_arrays(folder, tmp_path, seed):
    """With bounds checked in compiled code, an index out of range is an IndexError."""
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    assert forge(folder, seed, count=tries(200), lies_each=2, **environment) == {}
