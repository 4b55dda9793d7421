"""The table of operations of REST: the server has a function of each, and addresses fit."""

import inspect

import pytest

from projseg.catalog import rest_handlers
from projseg.catalog.store.operations import OPERATIONS


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_server_has_a_function_of_each_operation(name):
    assert list(inspect.signature(getattr(rest_handlers, name)).parameters) == ["request"]


def test_names_in_an_address_are_quoted():
    assert OPERATIONS["create"].address(("a/b", "ü")) == "/tables/a%2Fb/%C3%BC"


def test_the_first_path_of_an_address_is_the_longer_one():
    """`/staged/{id}/publish` would also be a stage of a table `publish`."""
    assert list(OPERATIONS).index("publish") < list(OPERATIONS).index("stage")
