"""Operators bind in Spark's order, and a name is a name, whatever word it is."""

import random

import pytest
from scale import tries
from spellings import FORMS, ROW, TYPES, VALUES, bracketed, chain, joined_chain, spelled, words

import projseg
from projseg import ProjsegError

RESERVED_CODES = {
    "PROJSEG_BAD_SQL",
    "PROJSEG_BAD_EXPRESSION",
    "PROJSEG_UNSUPPORTED_SQL",
    "PROJSEG_UNSUPPORTED_FUNCTION",
    "PROJSEG_UNKNOWN_COLUMN",
}


def _answer(table, texts):
    """Return the value of each text over the only row, or the error that refuses it."""
    try:
        found = table.sql(f"SELECT {', '.join(texts)} FROM t")
        return [column[0].as_py() for column in found.columns]
    except ProjsegError as error:
        if len(texts) == 1:
            return [error]
    half = len(texts) // 2
    return _answer(table, texts[:half]) + _answer(table, texts[half:])


def _table(folder, types, row):
    data = {name: [value] for name, value in row.items()}
    return projseg.Table.create(folder / "t", types, data=data)


def test_operators_bind_as_in_spark(tmp_path):
    table = _table(tmp_path, TYPES, ROW)
    draw = random.Random(13)
    chains = [chain(draw, draw.randint(2, 6)) for _ in range(tries(2000))]
    chains += [joined_chain(draw) for _ in range(tries(300))]
    for at in range(0, len(chains), 20):
        some = chains[at : at + 20]
        found = _answer(table, [" ".join(parts) for parts in some])
        wanted = _answer(table, list(map(bracketed, some)))
        for parts, one, other in zip(some, found, wanted, strict=True):
            assert getattr(one, "code", one) == getattr(other, "code", other), parts


@pytest.mark.parametrize("type_text", FORMS)
def test_a_word_of_sql_is_a_name_or_refused(type_text, tmp_path):
    names = random.Random(5).sample(words(), min(tries(100), len(words())))
    names = sorted({*names, "array", "list", "null", "map", "connect_by_root", "all", "as"})
    value = VALUES[type_text]
    for at in range(0, len(names), 50):
        some = names[at : at + 50]
        row = dict.fromkeys(some, value)
        table = _table(tmp_path / str(at), dict.fromkeys(some, type_text), row)
        asked = [
            (form.format(n=name), wanted, name)
            for word in some
            for name in spelled(word)
            for form, wanted in FORMS[type_text]
        ]
        constants = {"null", "true", "false"}
        asked = [one for one in asked if one[2].lower() not in constants]
        plain = [one for one in asked if "`" in one[2] or "." in one[2]]
        bare = [one for one in asked if one not in plain]
        for part, may_refuse in ((plain, False), (bare, True)):
            for start in range(0, len(part), 40):
                chosen = part[start : start + 40]
                answers = _answer(table, [text for text, _, _ in chosen])
                for (text, wanted, _), found in zip(chosen, answers, strict=True):
                    if may_refuse and isinstance(found, ProjsegError):
                        assert found.code in RESERVED_CODES, text
                    else:
                        assert found == wanted, (text, found)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("R'a''b'", "ab"),
        ("'a' r'\\n' \"b\"", "a\\nb"),
        ("~~5", 5),
        ("1 !> 2 AND 2 !< 1", True),
        ("1 < 2 << 1", True),
        ("-7 >>> 1", 2147483644),
        ("least(NULL, NULL)", None),
        ("length(base64(repeat('a', 200)))", 274),
        ("length(base64(repeat('a', 57)))", 76),
        ("base64('')", ""),
    ],
)
def test_a_spelling_of_spark(text, value, tmp_path):
    assert _answer(_table(tmp_path, TYPES, ROW), [text]) == [value]


def test_signs_of_an_operator_stand_together(tmp_path):
    (error,) = _answer(_table(tmp_path, TYPES, ROW), ["1 < < 2"])
    assert error.code == "PROJSEG_BAD_SQL"
