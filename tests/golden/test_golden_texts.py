"""Texts, definitions, names and floats that older releases wrote mean the same to this one."""

import json
import re

import msgspec
import pytest
import xxhash
from golden_texts import PATH, build, canonical, definition, schema
from spec_tables import section_text

from projseg.algebra.projection.spec import from_definition

GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
TEXTS = [(zone, text) for zone, texts in GOLDEN["canonical"].items() for text in texts]


@pytest.mark.parametrize(("zone", "text"), TEXTS)
def test_a_text_has_the_canonical_form_that_it_always_had(zone, text):
    assert canonical(text, zone) == GOLDEN["canonical"][zone][text]


@pytest.mark.parametrize(("zone", "text"), TEXTS)
def test_a_canonical_text_reads_back_as_itself_in_utc(zone, text):
    stored = GOLDEN["canonical"][zone][text]
    assert canonical(stored, "UTC") == stored


@pytest.mark.parametrize("example", GOLDEN["definitions"], ids=lambda e: e["declaration"]["name"])
def test_a_declaration_has_the_definition_that_it_always_had(example):
    assert definition(example["declaration"]) == {
        "definition": example["definition"],
        "hash": example["hash"],
    }


@pytest.mark.parametrize("example", GOLDEN["definitions"], ids=lambda e: e["declaration"]["name"])
def test_a_stored_definition_reads_back_with_its_hash(example):
    text = json.dumps(example["definition"], ensure_ascii=False, separators=(",", ":"))
    assert from_definition(text, schema()).definition_hash == example["hash"]


def test_the_hash_example_of_the_specification():
    (content, digest), *others = re.findall(
        r"```\n(\[\[.*\])\n-> ([0-9a-f]{32})\n```", section_text("4.10")
    )
    assert not others
    assert xxhash.xxh3_128_hexdigest(content.encode()) == digest
    assert GOLDEN["definitions"][0]["hash"] == digest


def test_floats_are_written_as_ever():
    for bits, text in GOLDEN["floats"].items():
        assert msgspec.json.encode(float.fromhex(bits)).decode() == text


def test_the_file_has_every_example():
    assert build() == GOLDEN
