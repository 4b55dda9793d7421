"""Parts of docs/python-api.md: signatures and docstrings of all that `projseg` offers."""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from docstrings import Entry, parsed
from regions import KEPT_SPACE, WIDTH, code, wrapped

import projseg
from projseg import errors
from projseg.doors.duckdb_tables import DuckDBTables
from projseg.errors import ProjsegError
from projseg.maintenance.findings import Finding
from projseg.maintenance.row_changes.delete_and_update import Corrected
from projseg.maintenance.row_changes.erase import Erased
from projseg.maintenance.sync import Synced
from projseg.memory.cache import CacheStatistics
from projseg.table.inspection import AttachedSource
from projseg.table_layer.vacuum import Vacuumed

_RETURNED = (
    *(Finding, Corrected, Erased, Vacuumed, CacheStatistics, DuckDBTables),
    *(AttachedSource, Synced),
)
_MADE = (projseg.Advice, projseg.Commit, projseg.Explain, projseg.Refresh, projseg.View)
_ANSWERS = (*_MADE, *_RETURNED)
"""Classes whose objects projseg makes: they have fields, and no call to show."""
_WORDS = {"Parameters": "", "Returns": "returns ", "Raises": "raises "}
"""What each section's entries begin with."""
_HERE = Path(__file__).parent
_PAGES = tuple(
    f"{name}.md"
    for name in (
        "projections",
        "indexes",
        "life",
        "views",
        "erasing",
        "memory",
        "advisor",
        "monitoring",
        "page",
        "catalog",
        "python-api",
        "sql-without-spark",
        "foreign-tables",
    )
)
_EXAMPLE = re.compile(r"^(#+) ([^\n]*)$|```python(?: spark)?\n(.*?)```", re.MULTILINE | re.DOTALL)
_INSTANCES = {
    "Table": "table",
    "Catalog": "catalog",
    "Advice": "advice",
    "Explain": "plan",
    "Query": "query",
    "QueryPool": "pool",
    "ProjsegError": "error",
    "Commit": "commit",
    "Finding": "finding",
    "Corrected": "done",
    "Erased": "gone",
    "Vacuumed": "old",
    "View": "view",
    "Refresh": "done",
    "Synced": "done",
    "AttachedSource": "source",
    "CacheStatistics": "found",
    "DuckDBTables": "tables",
}
"""The variable that the examples use for an object of each class."""


def public_objects() -> dict[str, Any]:
    """Return the documented objects by name: public names, and classes that they return."""
    public = {name: getattr(projseg, name) for name in projseg.__all__}
    return public | {kind.__name__: kind for kind in _RETURNED}


def public_members(kind: type) -> dict[str, Any]:
    """Return the public methods and properties of a class by name, inherited ones too."""
    found = {
        name: member
        for base in kind.__mro__[:-1]
        if base.__module__.startswith("projseg")
        for name, member in vars(base).items()
        if not name.startswith("_")
    }
    return {
        name: member.__func__ if isinstance(member, classmethod | staticmethod) else member
        for name, member in found.items()
        if isinstance(member, classmethod | staticmethod | property) or inspect.isfunction(member)
    }


def api_parts() -> dict[str, str]:
    """Return the parts of the page by name."""
    found = public_objects()
    return {
        "names": _listed(_name_rows(found)),
        "errors": _errors(),
        **{name: "\n\n".join(_paragraphs(name, one)) for name, one in found.items()},
    }


def _name_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, one in found.items():
        shown = code(f"projseg.{name}" if name in projseg.__all__ else name)
        yield f"[{shown}](#{_anchor(name)})", " ".join(parsed(one).summary.split())


def _errors() -> str:
    kinds = [
        kind
        for kind in vars(errors).values()
        if inspect.isclass(kind) and issubclass(kind, ProjsegError) and kind is not ProjsegError
    ]
    rows = [(code(kind.__name__), " ".join(parsed(kind).summary.split())) for kind in kinds]
    return _listed(rows)


def _listed(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(wrapped(f"- {name}: {meaning}", "  ") for name, meaning in rows)


def _paragraphs(name: str, one: Any) -> Iterator[str]:
    """Yield Markdown of a function or of a class with its members."""
    if not inspect.isclass(one):
        yield from _documented(name, one, f"projseg.{name}", f"projseg.{name}")
        return
    home = "projseg." if name in projseg.__all__ else ""
    instance = _INSTANCES.get(name, "")
    yield from _documented(
        name, one, f"{home}{name}", instance if one in _ANSWERS else f"{home}{name}"
    )
    for member_name, member in public_members(one).items():
        full = f"{name}.{member_name}"
        is_made = next(iter(_parameters(member)), None) == "cls"
        yield from _documented(
            full, member, full, f"projseg.{full}" if is_made else f"{instance}.{member_name}"
        )


def _documented(heading: str, one: Any, shown: str, called: str) -> Iterator[str]:
    docstring = parsed(one)
    yield f"### {heading}"
    signature = _signature(shown, one)
    if signature:
        yield f"```py\n{signature}\n```"
    *first, last = docstring.summary, *docstring.paragraphs
    example = _example_of(called)
    yield from map(wrapped, [*first, f"{last} ([example]({example}))" if example else last])
    entries = [
        f"- {_WORDS[section]}{_entry(entry)}"
        for section, entries in docstring.sections.items()
        for entry in entries
    ]
    if entries:
        yield "\n".join(wrapped(entry, "  ") for entry in entries)


def _entry(entry: Entry) -> str:
    names = ", ".join(f"`{name}`" for name in entry.names)
    kind = f"({entry.kind})" if names and entry.kind else code(entry.kind)
    head = " ".join(part for part in (names, kind) if part)
    return f"{head}: {entry.meaning}" if entry.meaning else head


def _parameters(one: Any) -> Mapping[str, inspect.Parameter]:
    function = one.__init__ if inspect.isclass(one) else one
    return {} if isinstance(one, property) else inspect.signature(function).parameters


def _signature(name: str, one: Any) -> str:
    """Return a call as Python writes it; or nothing."""
    if isinstance(one, property):
        return f"{name}: {_annotation(inspect.signature(_getter(one)).return_annotation)}"
    if one in _ANSWERS:
        return ""
    found = [p for p in _parameters(one).values() if p.name not in ("self", "cls")]
    shown = list(_shown_parameters(found))
    returned = None if inspect.isclass(one) else inspect.signature(one).return_annotation
    ending = "" if returned is None else f" -> {_annotation(returned)}"
    line = f"{name}({', '.join(shown)}){ending}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", _filled(shown), f"){ending}"])


def _filled(parameters: Iterable[str]) -> str:
    """Return parameters in as few lines as hold them; none is broken."""
    kept = " ".join(f"{one},".replace(" ", KEPT_SPACE) for one in parameters)
    return textwrap.indent(textwrap.fill(kept, WIDTH - 4), " " * 4).replace(KEPT_SPACE, " ")


def _getter(one: property) -> Callable[..., Any]:
    if one.fget is None:
        raise SystemExit(f"{one!r} cannot be read")
    return one.fget


def _shown_parameters(found: Iterable[inspect.Parameter]) -> Iterator[str]:
    is_keyword_only = False
    for parameter in found:
        if parameter.kind is parameter.KEYWORD_ONLY and not is_keyword_only:
            is_keyword_only = True
            yield "*"
        plain = parameter.replace(annotation=parameter.empty)
        annotation = _annotation(parameter.annotation)
        if parameter.default is parameter.empty:
            yield f"{plain}: {annotation}"
        else:
            yield f"{parameter.name}: {annotation} = {_default(parameter.default)}"


def _default(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"{value:_}" if type(value) is int else repr(value)


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")


def _example_of(called: str) -> str:
    """Return the address of the first example that uses a name, or an empty text."""
    used = re.compile(rf"(?<![\w.]){re.escape(called)}\b")
    for page in _PAGES:
        heading = ""
        for _, title, example in _EXAMPLE.findall((_HERE / page).read_text()):
            heading = title or heading
            if used.search(example):
                return f"{_link(page)}#{_anchor(heading)}"
    return ""


def _link(page: str) -> str:
    return "" if page == "python-api.md" else page


def _anchor(heading: str) -> str:
    """Return a heading's anchor as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
