"""What `python -m tests.mutants` tries is there, and what it makes is what it says."""

import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.mutants.code_swap import private_constant  # noqa: E402 - it is no test's helper
from tests.mutants.explanations import read_explanations  # noqa: E402 - it is no test's helper
from tests.mutants.modules import TESTS  # noqa: E402
from tests.mutants.mutations import mutants_of  # noqa: E402
from tests.mutants.trial import TOO_LONG, _in_child  # noqa: E402


@pytest.mark.parametrize("path", TESTS)
def test_a_module_and_its_tests_are_there(path):
    assert all((ROOT / each).is_file() for each in (path, *TESTS[path]))


def test_each_reason_is_about_one_mutant_of_its_module():
    explanations = read_explanations()
    for path in {each.path for each in explanations}:
        mutants = mutants_of((ROOT / path).read_text())
        for each in explanations:
            if each.path == path:
                assert sum(each.fits(path, mutant) for mutant in mutants) == 1, each.was
                assert each.reason


def changes(source):
    return [(mutant.line, mutant.becomes) for mutant in mutants_of(source)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a + b\n", [(1, "x = a - b")]),
        ("x = a <= b\n", [(1, "x = a < b")]),
        ("x = a and b or c\n", [(1, "x = a and b and c"), (1, "x = a or b or c")]),
        ("x = a is not None\n", [(1, "x = a is None")]),
        ("x = f(0)\n", [(1, "x = f(1)"), (1, "x = f((-1))")]),
        ("x = min(a)\n", [(1, "x = max(a)")]),
        ("x = pc.add_checked(a)\n", [(1, "x = pc.add(a)")]),
        ("x = ~a\n", [(1, "x = a")]),
        ("a &= b\n", [(1, "a |= b")]),
        ("if a:\n    raise Error(\n        b + c\n    )\n", [(2, "pass")]),
        ("x = (\n    a  # +\n    + b\n)\n", [(3, "- b")]),
        ("x: int | None = True\n", [(1, "x: int | None = False")]),
        ("assert a + b\n", []),
        ("x = zip(a, strict=True)\n", []),
        ("isinstance(a, int | Decimal)\n", []),
        ("x = f'{a + b}'\n", []),
    ],
)
def test_a_mutant_is_one_change(source, expected):
    assert sorted(changes(source)) == sorted(expected)


@pytest.mark.parametrize(
    ("rest", "is_found"),
    [
        ("def f():\n    return _A\n", True),
        ("B = _A + 1\n", False),
        ("def f(a=_A):\n    return a\n", False),
        ("class C:\n    a = _A\n", False),
    ],
)
def test_a_constant_that_importing_reads_is_changed_before_the_import(rest, is_found):
    assert (private_constant(f"_A: int = 1\n{rest}", "m.py", 1) is not None) == is_found


def test_a_mutant_is_named_without_comments():
    (mutant,) = mutants_of("x = a + '#'  # é + #\n")
    assert (mutant.was, mutant.becomes) == ("x = a + '#'", "x = a - '#'")
    assert mutant.source == "x = a - '#'  # é + #\n"


def test_a_mutant_knows_its_place():
    source = "A = 1 + a\n\n\nclass C:\n    def f(self):\n        return a + b\n"
    places = {mutant.was: mutant.place for mutant in mutants_of(source)}
    assert places == {"A = 1 + a": "", "return a + b": "C.f"}


def test_a_mutant_knows_its_innermost_function():
    source = "A = 1 + 2\n\n\n@cache\ndef f(a=b + c):\n    return a + (lambda d: d - 1)(a)\n"
    functions = {mutant.becomes: mutant.function for mutant in mutants_of(source)}
    assert functions["A = 1 - 2"] is None
    assert functions["def f(a=b - c):"] is None
    assert functions["return a - (lambda d: d - 1)(a)"] == 4
    assert functions["return a + (lambda d: d + 1)(a)"] == 6


def test_a_mutant_is_given_time_of_the_processor():
    """Another process may have it: a machine under load killed mutants that survive."""

    def waits():
        time.sleep(0.3)
        return "survived"

    def runs_for_ever():
        while True:
            pass

    assert _in_child(waits, 0.1) == "survived"
    assert _in_child(runs_for_ever, 1) == TOO_LONG
