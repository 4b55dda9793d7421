"""Lines of product code in each room, comments and docstrings included: `make lines`."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUDGETS = Path(__file__).with_name("lines.toml")
CLI = ROOT / "src/projseg/cli"


def lines_by_room():
    """Return the number of lines of Python and Scala in each room."""
    rooms = {path.name: path.resolve() for path in (ROOT / "src/projseg").iterdir()}
    rooms = {name: place for name, place in rooms.items() if (ROOT / name).is_dir()}
    counts = {name: _lines(place.rglob("*")) for name, place in sorted(rooms.items())}
    front = (path for path in (ROOT / "src/projseg").glob("*.py"))
    tables = (path for path in (ROOT / "src/projseg/table").rglob("*.py"))
    return counts | {
        "src/projseg": _lines([*front, *tables]),
        "src/projseg/cli": _lines(CLI.rglob("*")),
    }


def _lines(paths):
    return sum(path.read_text().count("\n") for path in paths if path.suffix in (".py", ".scala"))


if __name__ == "__main__":
    budgets, found = tomllib.loads(BUDGETS.read_text()), lines_by_room()
    for room, lines in sorted(found.items(), key=lambda each: -each[1]):
        print(f"{room:20} {lines:7,} of {budgets.get(room, 0):7,}")
    print(f"{'all':20} {sum(found.values()):7,} of {sum(budgets.values()):7,}")
