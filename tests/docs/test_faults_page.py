"""The tests that the page of faults names exist, and it says where there is none."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/faults.md").read_text()
LINES = re.findall(r"^\|( \d+ \|.*)\|$", PAGE, re.MULTILINE)
TESTS = {
    int(cells[0]): cells[3] for cells in ([*map(str.strip, line.split("|"))] for line in LINES)
}
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+(?:\.py)?)((?:::\w+)*)`", PAGE)))


@pytest.mark.parametrize(("path", "names"), NAMED, ids=str)
def test_a_test_that_the_page_names_exists(path, names):
    assert (ROOT / path).exists()
    for name in names.split("::")[1:]:
        found = re.search(rf"^ *(?:def|class) {name}\b", (ROOT / path).read_text(), re.MULTILINE)
        assert found, name


def test_each_fault_has_a_row_and_what_has_no_test_is_said_to_be_not_reached():
    assert list(TESTS) == list(range(1, len(LINES) + 1))
    without = {number for number, tests in TESTS.items() if "`tests/" not in tests}
    said = re.findall(r"^- \*\*(\d+):\*\* not reached", PAGE, re.MULTILINE)
    assert without == {*map(int, said)}
