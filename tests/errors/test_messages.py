"""A message is one short line of printable text, whatever a file or a caller put into it."""

import copy
import pickle

import pytest
from forged_segments import Forgery
from hypothesis import given
from hypothesis import strategies as st
from segment_bytes import FILE_ID, open_segment

from projseg.errors import (
    MESSAGE_CHARACTERS_MAX,
    CommitStateUnknownError,
    CorruptSegmentError,
    ProjsegError,
    one_line,
)
from projseg.segment_format.footer import FieldEntry, Footer, TableEntry


@given(st.text(max_size=300) | st.characters().map(lambda c: c * (3 * MESSAGE_CHARACTERS_MAX)))
def test_any_text_becomes_one_printable_line(text):
    message = ProjsegError("PROJSEG_INTERNAL", text).message
    assert message.isprintable()
    assert len(message) <= MESSAGE_CHARACTERS_MAX
    if text.isprintable() and len(text) <= MESSAGE_CHARACTERS_MAX:
        assert message == text


@pytest.mark.parametrize(
    ("character", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("\n", r"\n"),
        ("\0", r"\x00"),
        ("\u202e", r"\u202e"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_steers_a_terminal_is_escaped(character, shown):
    assert one_line(f"a{character}b") == f"a{shown}b"


def test_a_long_message_keeps_its_beginning_and_its_advice():
    message = one_line("column '" + "x" * 100_000 + "' is unknown; name another")
    assert message.startswith("column 'xxx")
    assert message.endswith("; name another")
    assert "(100,034 characters in all)" in message


def test_a_cut_message_survives_pickling_and_copying():
    error = CommitStateUnknownError("PROJSEG_COMMIT_STATE_UNKNOWN", "\x1b" * 10_000)
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), other.code, other.message) == (
            type(error),
            error.code,
            error.message,
        )


def test_a_forged_name_does_not_reach_the_terminal():
    name = "\x1b]0;owned\x07" + "x" * 100_000
    table = TableEntry("__base", 0, "", "", (), ())
    fields = (FieldEntry(name, name, True),)
    content = Forgery().finish(Footer(FILE_ID, name, fields, (), (table,), (), ()))
    with pytest.raises(CorruptSegmentError) as caught:
        open_segment(content, path=name)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 2 * MESSAGE_CHARACTERS_MAX
