"""Pages written by hand around parts that are made from the code.

A part stands between `<!-- made: NAME -->` and `<!-- end -->`; all else on the page is prose.
"""

import re
import textwrap
from collections.abc import Iterable, Mapping

WIDTH = 100
_CODE = re.compile("`[^`]+`")
KEPT_SPACE = "\N{NO-BREAK SPACE}"
_REGION = re.compile(r"(?<=<!-- made: )([^ ]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)


def filled(page: str, parts: Mapping[str, str]) -> str:
    """Return a page with each part between its marks.

    Parameters
    ----------
    page : str
        The page as it is.
    parts : mapping of str to str
        Markdown of each part, by the name in its mark.

    Raises
    ------
    SystemExit
        If a part has no marks on the page, or marks have no part.
    """
    marked = [name for name, _ in _REGION.findall(page)]
    if sorted(marked) != sorted(parts):
        differing = sorted(set(marked) ^ set(parts)) or sorted(marked)
        raise SystemExit(f"marks `<!-- made: ... -->` and parts differ: {differing}")
    return _REGION.sub(lambda mark: f"{mark[1]}{mark[2]}\n{parts[mark[1]].strip()}\n\n", page)


def wrapped(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of `WIDTH` characters, indented from the second on.

    Code is not broken.
    """
    kept = _CODE.sub(lambda found: found[0].replace(" ", KEPT_SPACE), " ".join(text.split()))
    lines = textwrap.fill(
        kept, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return lines.replace(KEPT_SPACE, " ")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    names = list(head)
    return "\n".join([row(*names), "|" + "---|" * len(names), *(row(*cells) for cells in rows)])


def row(*cells: str) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def cell(text: str) -> str:
    """Return a text, escaped for a cell of a table."""
    return text.replace("|", "\\|")


def code(text: str) -> str:
    """Return a text as code in a table's cell."""
    return f"`{cell(text)}`" if text else ""
