"""Print the oldest release that pyproject.toml allows of each package, as pip's constraints.

Extras named as arguments count, too: `python .ci/minimum_versions.py spark`.
"""

import re
import sys
import tomllib
from pathlib import Path

_BOUND = re.compile(r"^([\w.-]+)>=([\w.]+)(,<[\w.]+)?$")


def minimum(requirement: str) -> str:
    """Return `name==version` for `name>=version`; a requirement of another form is an error."""
    found = _BOUND.match(requirement)
    if found is None:
        raise SystemExit(f"pyproject.toml: '{requirement}' does not state its oldest release")
    return f"{found[1]}=={found[2]}"


def main(extras: list[str]) -> None:
    """Print a line for each dependency."""
    pyproject = Path(__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(pyproject.read_text())["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    for requirement in requirements:
        print(minimum(requirement))


if __name__ == "__main__":
    main(sys.argv[1:])
