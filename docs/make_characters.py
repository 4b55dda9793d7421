"""Write segment_format/indexes/characters.json, the table of characters of SPEC.md section 16.

    pip install unicodedata2 fonttools regex
    python docs/make_characters.py

It was run once, with the packages of Unicode 18.0, since a word that is stored must be found for
ever: another table is another version in the definitions of indexes. Categories come from
unicodedata2, scripts from fonttools, and cases from regex, Python and the rules in `joined`.
"""

import json
from collections import defaultdict
from itertools import groupby
from pathlib import Path

import regex._regex as cases
import unicodedata2
from fontTools.unicodedata import script

TABLE = Path(__file__).parents[1] / "segment_format" / "indexes" / "characters.json"
EVERY = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
SINGLE_SCRIPTS = {"Hani", "Hira", "Kana", "Thai", "Laoo", "Khmr", "Mymr"}
NOTHING = 0x307  # the lower case of U+0130 is i and this
FULL_UNICODE = 0x20  # regex's flag


def joined() -> dict[int, set[int]]:
    """Return the characters that any way of ignoring case takes for each other, by each of them."""
    sets = {code: {code} for code in EVERY}
    for code in EVERY:
        character = chr(code)
        others = set(cases.get_all_cases(FULL_UNICODE, code))
        for changed in (character.lower(), character.upper(), character.upper().lower()):
            others |= {ord(changed)} if len(changed) == 1 else set()
        if code == 0x130:
            others.add(ord("i"))
        union = set().union(*(sets[other] for other in others))
        for member in union:
            sets[member] = union
    return sets


def chosen(members: set[int]) -> int:
    """Return the character that stands for a set: small, and the small form of its large one."""
    ordered = sorted(members)
    small = [code for code in ordered if unicodedata2.category(chr(code)) == "Ll"]
    usual = [code for code in small if chr(code).upper().lower() == chr(code) != chr(code).upper()]
    return (usual or small or ordered)[0]


def class_of(code: int) -> str:
    """Return the class of a character."""
    if unicodedata2.category(chr(code))[0] not in "LMN":
        return "gap"
    return "singles" if script(chr(code)) in SINGLE_SCRIPTS else "words"


def main() -> None:
    """Write the table."""
    ranges = defaultdict(list)
    for name, codes in groupby(range(0x110000), class_of):
        several = list(codes)
        ranges[name] += [several[0], several[-1]]
    sets = joined()
    folds = [(code, chosen(sets[code])) for code in EVERY if len(sets[code]) > 1]
    changed = [(code, fold) for code, fold in folds if code != fold] + [(NOTHING, -1)]
    table = {
        "unicode": unicodedata2.unidata_version,
        "words": ranges["words"],
        "singles": ranges["singles"],
        "folds": [number for pair in sorted(changed) for number in pair],
    }
    TABLE.write_text(json.dumps(table, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
