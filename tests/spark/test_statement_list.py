"""The list of statements that both languages read: each has a reply, and a function in Python."""

import re

import pytest

from projseg.spark_datasource.statement_list import FORMS, REPLIES
from projseg.spark_engine import engine

FUNCTIONS = {
    name
    for kind, functions in vars(engine).items()
    if isinstance(functions, dict) and not kind.startswith("__")
    for name, function in functions.items()
    if callable(function)
}


@pytest.mark.parametrize(("operation", "form"), FORMS)
def test_a_form_has_a_reply_and_a_function(operation, form):
    assert operation in REPLIES
    assert operation in FUNCTIONS
    assert form.count("[") == form.count("]")


@pytest.mark.parametrize("operation", REPLIES)
def test_a_reply_has_a_function(operation):
    assert operation.removesuffix(" dry_run") in FUNCTIONS


@pytest.mark.parametrize(("operation", "form"), FORMS)
def test_what_may_be_left_out_begins_with_words(operation, form):
    del operation
    for inside in re.findall(r"\[([^\[\]]*)", form):
        assert re.match(r"(?:\w+: )?[A-Z|]+", inside)
