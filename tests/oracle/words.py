"""The words of a text and its runs of three characters by their definition. SPEC.md section 16."""

import json
from functools import cache
from pathlib import Path

FILE = Path(__file__).parents[2] / "segment_format" / "indexes" / "characters.json"


@cache
def table():
    """(characters of words, those that are words alone, fold of a character)."""
    stated = json.loads(FILE.read_bytes())

    def codes(bounds):
        pairs = zip(bounds[::2], bounds[1::2], strict=True)
        return {code for first, last in pairs for code in range(first, last + 1)}

    pairs = zip(stated["folds"][::2], stated["folds"][1::2], strict=True)
    folds = {chr(code): "" if fold < 0 else chr(fold) for code, fold in pairs}
    return codes(stated["words"]), codes(stated["singles"]), folds


def folded(text):
    """A text with each character folded."""
    return "".join(table()[2].get(character, character) for character in text)


def words(text):
    """The words of a text, folded, in order."""
    of_words, singles, _ = table()
    runs = [""]
    for character in text:
        if ord(character) in singles:
            runs += [character, ""]
        elif ord(character) in of_words:
            runs[-1] += character
        else:
            runs.append("")
    return [piece for run in runs for piece in pieces(folded(run))]


def pieces(word):
    """A word in pieces of at most 255 bytes, each as long as it can be."""
    found = []
    for character in word:
        if found and len((found[-1] + character).encode()) <= 255:
            found[-1] += character
        else:
            found.append(character)
    return found


def grams(text):
    """Every three characters in a row of a folded text, as numbers."""
    codes = [ord(character) for character in folded(text)]
    return [a << 42 | b << 21 | c for a, b, c in zip(codes, codes[1:], codes[2:], strict=False)]
