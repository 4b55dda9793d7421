"""What every encoding must have: a test fails for each record of the table that lacks it."""

import sys

import pytest
from encoding_pages import COLUMNS, page_of
from spec_tables import section_heading, section_text, spec_table, struct_format

from projseg.segment_format.encodings.encoding_table import ENCODING_NAMES, ENCODINGS

RECORDS = {(record.number, record.kind): record for record in ENCODINGS}


def test_each_has_a_column_that_it_wins_and_strangers_forge():
    """Of these are made the pages of test_forgeries and of the tests below."""
    assert set(COLUMNS) == set(RECORDS)
    assert len(RECORDS) == len(ENCODINGS)


@pytest.mark.parametrize("key", COLUMNS, ids=str)
def test_each_wins_where_it_should(key):
    assert page_of(key)[1]["encoding"] == key[0]


def test_a_number_has_one_name_and_one_section():
    assert len({(r.number, r.name, r.section) for r in ENCODINGS}) == len(ENCODING_NAMES)
    assert len(set(ENCODING_NAMES.values())) == len(ENCODING_NAMES)
    assert all(0 < number < 256 for number in ENCODING_NAMES)


def test_the_document_lists_these_and_no_other():
    stated = {(int(number), name, section) for number, name, section, *_ in spec_table("6")}
    assert stated == {(r.number, r.name, r.section) for r in ENCODINGS}


def layout_of(codec):
    """Return the layout that its methods name, or else its module, if there is one."""
    codes = [getattr(method, "__code__", None) for method in vars(codec).values()]
    found = {name for code in codes if code for name in code.co_names}
    named = min((name for name in found if name.endswith("_LAYOUT")), key=len, default="_LAYOUT")
    return getattr(sys.modules[codec.__module__], named, None)


@pytest.mark.parametrize("record", ENCODINGS, ids=lambda record: f"{record.number} {record.kind}")
def test_each_has_a_section_that_states_its_layout(record):
    assert section_heading(record.section).lower() == record.name
    layout = layout_of(type(record.codec))
    if layout is None:
        assert "| field |" not in section_text(record.section)
    else:
        assert struct_format(record.section) == layout.format
