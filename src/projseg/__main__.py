"""`python -m projseg` is `projseg`; the release is printed without loading what answers queries."""

from __future__ import annotations

import sys

from projseg import __version__


def main() -> None:
    """Run the command line."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"projseg {__version__}\n")
        return
    try:
        # Imported here: it loads every verb, and what these need.
        from projseg.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
