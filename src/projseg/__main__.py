"""`python -m projseg` is `projseg`."""

from projseg.cli import main

if __name__ == "__main__":
    main()
