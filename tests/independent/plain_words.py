"""Words of texts and their runs of three, made from SPEC.md section 16 alone."""

import json
from pathlib import Path

import projseg.segment_format

TABLE = json.loads(
    Path(projseg.segment_format.__path__[0], "indexes", "characters.json").read_text()
)
FOLDS = dict(zip(TABLE["folds"][::2], TABLE["folds"][1::2], strict=True))


def _is_in(name, character):
    bounds = TABLE[name]
    return any(bounds[n] <= ord(character) <= bounds[n + 1] for n in range(0, len(bounds), 2))


def fold(text):
    """A folded text."""
    codes = [FOLDS.get(ord(character), ord(character)) for character in text]
    return "".join(chr(code) for code in codes if code != -1)


def words_of(text):
    """The words of a text; none is near 255 bytes long."""
    spaced = ""
    for character in text:
        if _is_in("singles", character):
            spaced += f" {character} "
        else:
            spaced += character if _is_in("words", character) else " "
    return [word for word in map(fold, spaced.split(" ")) if word]


def runs_of(text):
    """The runs of three characters as numbers."""
    codes = [ord(character) for character in fold(text)]
    return [(codes[n] << 42) + (codes[n + 1] << 21) + codes[n + 2] for n in range(len(codes) - 2)]
