"""Write the references in docs/ from the code's own tables; `--check` only compares."""

import sys
from pathlib import Path

from api_reference import api_parts
from command_reference import command_parts
from function_reference import functions_page
from regions import filled
from rest_reference import rest_page

from projseg import errors
from projseg.errors import CODES
from projseg.spark_datasource.options import OPTIONS
from projseg.spark_datasource.reads.stream_options import OF_STREAMS

HERE = Path(__file__).parent


def errors_page() -> str:
    """Return the error reference."""
    tree = (errors.__doc__ or "").split("\n\n")[1]
    rows = [f"| `{code}` | {CODES[code]} |" for code in sorted(CODES)]
    return "\n".join(
        [
            "# Errors",
            "",
            "Made by `python docs/make_reference.py`. Every error is one line: "
            "`[CODE] what was asked, what was found, what to do`.",
            "",
            "```",
            tree,
            "```",
            "",
            "| code | meaning |",
            "|---|---|",
            *rows,
            "",
        ]
    )


def options_page() -> str:
    """Return the option reference."""
    rows = [
        f"| `{option.name}` | {option.kind.value} | {'x' if option.is_for_read else ''} | "
        f"{'x' if option.is_for_write else ''} | {'x' if option.name in OF_STREAMS else ''} | "
        f"{option.meaning} |"
        for option in OPTIONS
    ]
    return "\n".join(
        [
            '# Options of `format("projseg")`',
            "",
            "Made by `python docs/make_reference.py`. Names are read without regard to case. Lists "
            "are comma-separated SQL or JSON arrays. The column *stream* is of `readStream`; what "
            "`writeStream` takes is in [streams](streams.md). Options that begin with `storage.` "
            "are those of an [object store](object-stores.md), by its own keys.",
            "",
            "| option | takes | read | write | stream | meaning |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def main() -> int:
    """Write the pages, or print which differ."""
    command_line, python_api = HERE / "command-line.md", HERE / "python-api.md"
    pages = {
        command_line: filled(command_line.read_text(), command_parts()),
        python_api: filled(python_api.read_text(), api_parts()),
        HERE / "errors.md": errors_page(),
        HERE / "options.md": options_page(),
        HERE / "functions.md": functions_page(),
        HERE / "catalog-rest.json": rest_page(),
    }
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
