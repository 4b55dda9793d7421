"""Refuses to build from a checkout without symbolic links; pyproject.toml says everything else.

`src/projseg` holds links to the folders at the top level. Git and some unpackers write a small text
file in place of each link where links are off, and the wheel would be nearly empty.
"""

from pathlib import Path

from setuptools import setup

PACKAGE = Path(__file__).parent / "src" / "projseg"


def refuse_without_links() -> None:
    """Stop the build if a link is missing its folder."""
    broken = sorted(
        path.name for path in PACKAGE.iterdir() if not path.is_dir() and not path.suffix
    )
    if broken:
        raise SystemExit(
            f"projseg cannot be built here: {', '.join(broken)} in src/projseg should be symbolic "
            "links to folders and are not. In a clone, run `git config core.symlinks true` and "
            "`git checkout -- src`; unpack an archive with a tool that keeps links, such as tar."
        )


refuse_without_links()
setup()
