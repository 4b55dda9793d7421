"""Mutants of a whole table: a reader answers exactly, or refuses with an error of ours.

Where checksums are mended, a file may lie in a way that no reader can know: then `verify` says so.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from scale import tries
from table_mutants import Mutants, answers, is_found_out, make_table

TESTS = Path(__file__).parents[1]


def run(folder, seed, count):
    """Return (wrong mutants, how they ended by kind)."""
    make_table(folder / "sound")
    wanted = answers(folder / "sound")
    assert not any(isinstance(one, str) for one in wanted)
    mutants = Mutants(folder / "sound", random.Random(seed))
    wrong, ended = [], Counter()
    for number in range(count):
        what = mutants.draw(folder / "mutant")
        try:
            found = answers(folder / "mutant")
            refused = [one for one in found if isinstance(one, str)]
            pairs = zip(found, wanted, strict=True)
            if any(one != right and not isinstance(one, str) for one, right in pairs):
                end = "found out" if is_found_out(folder / "mutant") else "WRONG"
            else:
                end = "refused" if refused else "exact"
        except BaseException as error:  # noqa: BLE001 what leaves a reader is what this looks for
            end = f"RAW {type(error).__name__}: {error}"[:200]
        if end.startswith(("WRONG", "RAW")):
            wrong.append(f"{number} {what}: {end}")
        ended[what.split("/")[0].rsplit(" ", 1)[0], end.split(" ")[0]] += 1
    return wrong, ended


def test_a_few_mutants(tmp_path):
    wrong, ended = run(tmp_path, seed=1, count=25)
    assert wrong == []
    assert {end for _, end in ended} >= {"refused", "exact"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 20))
def test_many_mutants(tmp_path, seed):
    """Each part in a process of its own: what ends the process is found as well."""
    paths = [str(TESTS / name) for name in ("support", "query", "oracle")]
    script = (
        f"import sys, json; sys.path[:0] = {paths!r}; from pathlib import Path; "
        "from test_table_mutants import run; "
        f"wrong, ended = run(Path({str(tmp_path)!r}), {seed}, {tries(5_000)}); "
        "print(json.dumps([wrong, sorted(map(str, ended.items()))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-3000:])
    wrong, ended = json.loads(done.stdout.splitlines()[-1])
    print("\n".join(ended))
    assert wrong == []
