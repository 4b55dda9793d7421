"""What becomes of the lines of an import that are no rows."""

from __future__ import annotations

import json
from typing import Final, Self, TextIO

from projseg.errors import InvalidInputError, StorageError

FAIL: Final = "fail"
SKIP: Final = "skip"
_ADVICE: Final = "nothing was imported: mend it, or leave such lines out with --on-error"
_SHOWN: Final = 80  # characters of a line in a message


class BadLines:
    """Counts bad lines, keeps them in a file, or refuses the first or one too many.

    Parameters
    ----------
    on_error : str
        `fail`, `skip`, or the file that gets each line with its number and the reason, as JSON.
    most : int or None
        The most bad lines of an import.
    advice : str
        What the refusal of the first says besides.
    """

    def __init__(
        self, on_error: str = FAIL, most: int | None = None, advice: str = _ADVICE
    ) -> None:
        self.count = 0
        self._on_error = on_error
        self._most = most
        self._advice = advice
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        if self._on_error not in (FAIL, SKIP):
            try:
                self._file = open(self._on_error, "w", encoding="utf-8")
            except OSError as error:
                raise StorageError(
                    "PROJSEG_STORAGE_FAILED",
                    f"--on-error {self._on_error} cannot be written: {error.strerror}",
                    error.errno,
                ) from error
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, path: str, number: int, line: bytes, reason: str) -> None:
        """Take a bad line.

        Parameters
        ----------
        path : str
            Its file.
        number : int
            Its place in the file, from 1.
        line : bytes
            The line.
        reason : str
            Why it is no row.

        Raises
        ------
        InvalidInputError
            PROJSEG_BAD_INPUT_FILE if none is allowed, or no more.
        """
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        where = f"{path}, line {number}: {reason}; the line begins '{text[:_SHOWN]}'"
        if self._on_error == FAIL:
            raise InvalidInputError("PROJSEG_BAD_INPUT_FILE", f"{where}; {self._advice}")
        self.count += 1
        if self._most is not None and self.count > self._most:
            raise InvalidInputError(
                "PROJSEG_BAD_INPUT_FILE",
                f"{where}; it is bad line {self.count}, and --max-errors allows {self._most}: "
                "nothing was imported",
            )
        if self._file is not None:
            report = {"file": path, "line": number, "reason": reason, "text": text}
            self._file.write(json.dumps(report, ensure_ascii=False) + "\n")
