"""Write the references in docs/ from the code's own tables; `--check` only compares."""

import sys
from pathlib import Path

from api_reference import api_parts
from command_reference import command_parts
from function_reference import function_parts
from regions import cell, code, filled, table
from rest_reference import rest_page

from projseg import errors
from projseg.algebra.query.context import STEERING, Steering
from projseg.doors.equal_functions import AGGREGATE_FORMS, EQUAL_FORMS
from projseg.errors import CODES
from projseg.spark_datasource.option_table import OF_STREAMS, OPTIONS
from projseg.table_layer.metadata_tables import METADATA_TABLES

HERE = Path(__file__).parent
STEERED = [one for one in STEERING.values() if one.about]


def error_parts() -> dict[str, str]:
    """Return the parts of the error reference."""
    tree = (errors.__doc__ or "").split("\n\n")[1]
    rows = ((code(name), CODES[name]) for name in sorted(CODES))
    return {"tree": f"```\n{tree}\n```", "codes": table(("code", "meaning"), rows)}


def option_parts() -> dict[str, str]:
    """Return the parts of the option reference."""
    head = ("option", "takes", "read", "write", "stream", "meaning")
    rows = []
    for one in OPTIONS:
        marks = (one.is_for_read, one.is_for_write, one.name in OF_STREAMS)
        crosses = ("x" if mark else "" for mark in marks)
        rows.append((code(one.name), one.kind.value, *crosses, one.meaning))
    return {
        "options": table(head, rows),
        "steering": table(("option", "setting", "hint", "meaning"), map(_steering_cells, STEERED)),
        "metadata-tables": table(
            ("name", "rows", "columns"),
            (
                (code(name), cell(one.meaning), cell(", ".join(map(code, one.schema.names))))
                for name, one in METADATA_TABLES.items()
            ),
        ),
    }


def _steering_cells(steering: Steering) -> tuple[str, ...]:
    setting = code(f"spark.projseg.{steering.setting or steering.key}")
    value = {"flag": "", "text": "(...)"}
    hint = f"/*+ {steering.hint}{value[steering.form.takes]} */" if steering.hint else ""
    return code(steering.key), setting, code(hint) if hint else "", cell(steering.meaning)


def equal_form_parts() -> dict[str, str]:
    """Return the part about what DuckDB's SQL and ours say alike."""
    rows = ((code(one.form), one.over) for one in (*AGGREGATE_FORMS, *EQUAL_FORMS))
    return {"equal-forms": table(("in DuckDB's SQL", "over"), rows)}


PARTS = {
    "command-line.md": command_parts,
    "errors.md": error_parts,
    "functions.md": function_parts,
    "options.md": option_parts,
    "python-api.md": api_parts,
    "sql-without-spark.md": equal_form_parts,
}


def main() -> int:
    """Write the pages, or print which differ."""
    pages = {
        HERE / name: filled((HERE / name).read_text(), parts()) for name, parts in PARTS.items()
    }
    pages[HERE / "catalog-rest.json"] = rest_page()
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(f"{path.name} is not current; run python docs/make_reference.py")
        return 1 if stale else 0
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
