"""Parts of docs/functions.md: registries of the code, notes on them, and examples worked out."""

from collections.abc import Iterable
from itertools import starmap

import pyarrow as pa
from function_notes import FUNCTIONS, OWN_FUNCTIONS, REGEX_DIFFERENCES, SYNTAX
from regions import cell, code, table

from projseg.algebra.aggregates.aggregate_functions import AGGREGATES, AggregateFunction
from projseg.algebra.aggregates.primitive import PRIMITIVES
from projseg.algebra.expressions.bind import bind
from projseg.algebra.expressions.evaluate import evaluate
from projseg.algebra.expressions.functions.function_table import SPELLINGS
from projseg.errors import LimitExceededError, UnsupportedFeatureError
from projseg.segment_format.logical_types import type_name

_NO_COLUMNS = pa.schema([])


def text_of(example: str) -> str:
    """Return the value of an expression of constants, as CAST(... AS STRING) writes it."""
    written = evaluate(bind(f"CAST({example} AS STRING)", _NO_COLUMNS), {}, 1)[0].as_py()
    return "NULL" if written is None else written


def function_parts() -> dict[str, str]:
    """Return the parts of the page by name.

    Raises
    ------
    SystemExit
        If a function has no note, or a note no function.
    """
    written = {spelling.name for spelling in SPELLINGS.values()} | {"in_zone"}
    families = {**FUNCTIONS, "Functions that Spark lacks": OWN_FUNCTIONS}
    _check(written, [note[0] for notes in families.values() for note in notes])
    syntax = table(("syntax", "meaning", "example", "value"), starmap(_syntax_cells, SYNTAX))
    head = ("aggregate", "takes", "gives", "meaning", "stored")
    patterns = ("pattern", "here", "for example")
    return {
        "functions": "\n\n".join([syntax, *starmap(_family, families.items())]),
        "aggregates": table(head, map(_aggregate_cells, AGGREGATES)),
        "regular-expressions": table(patterns, starmap(_regex_cells, REGEX_DIFFERENCES)),
    }


def _check(registry: Iterable[str], notes: Iterable[str]) -> None:
    noted = set(notes)
    if noted != set(registry):
        missing, extra = sorted(set(registry) - noted), sorted(noted - set(registry))
        raise SystemExit(
            f"docs/function_notes.py: functions without a note {missing}, beside {extra}"
        )


def _family(family: str, notes: list) -> str:
    rows = []
    for name, syntax, meaning, example in notes:
        others = SPELLINGS[name].aliases if name in SPELLINGS else ()
        also = f" Also {', '.join(map(code, others))}." if others else ""
        rows.append((code(syntax), cell(meaning) + also, *_worked_out(example)))
    return f"### {family}\n\n{table(('function', 'meaning', 'example', 'value'), rows)}"


def _syntax_cells(syntax: str, meaning: str, example: str | None) -> tuple[str, ...]:
    return code(syntax), cell(meaning), *(_worked_out(example) if example else ("", ""))


def _worked_out(example: str) -> tuple[str, str]:
    return code(example), code(text_of(example))


def _aggregate_cells(name: str) -> tuple[str, ...]:
    function = AGGREGATES[name]
    also = f" Also {', '.join(map(code, function.aliases))}." if function.aliases else ""
    takes = ", ".join(kind.name for kind in function.arguments)
    filtered = " with the condition as FILTER" if name == "count_if" else ""
    storable = [name for name in function.primitives if not PRIMITIVES[name].not_stored]
    stored = " and ".join(map(code, storable)) + filtered if storable else "nothing"
    return code(name), takes, _results(function), cell(function.meaning) + also, stored


_SAMPLES = (pa.int64(), pa.float64(), pa.decimal128(10, 2), pa.string(), pa.bool_())


def _results(function: AggregateFunction) -> str:
    """Return the result type for each of some argument types, where they differ."""
    taken = [sample for sample in _SAMPLES if function.arguments[0].accepts(sample)]
    taken = taken or [pa.float32()]
    given = [(type_name(sample), type_name(function.result(sample))) for sample in taken]
    if all(source == result for source, result in given):
        return "the same type"
    results = list(dict.fromkeys(result for _, result in given))
    if len(results) == 1:
        return results[0]
    sources = [" and ".join(s for s, r in given if r == result) for result in results]
    return ", ".join(f"{r} for {s}" for r, s in zip(results, sources, strict=True))


def _regex_cells(what: str, how: str, example: str | None) -> tuple[str, ...]:
    shown = f"`{example}`" if example and len(example) < 40 else ""
    if how == "refused":
        _check_refused(example)
    return cell(what), how, cell(shown)


def _check_refused(pattern: str) -> None:
    quoted = pattern.replace("\\", "\\\\")
    try:
        bind(f"'a' RLIKE '{quoted}'", _NO_COLUMNS)
    except (UnsupportedFeatureError, LimitExceededError):
        return
    raise SystemExit(f"docs/function_notes.py: '{pattern}' is not refused")
