"""Any error becomes bytes and, on the other side, the same error or one that names it."""

import pickle

import pyarrow as pa
import pytest

from projseg import errors
from projseg.errors import CODES, ProjsegError, StorageError
from projseg.query_pool.messages import error_to_bytes


class OddError(Exception):
    """Takes another number of arguments than it keeps, and holds what no pickle takes."""

    def __init__(self, one, two):
        super().__init__(one)
        self.two = two, lambda: two


class TwoError(Exception):
    """Takes another number of arguments than it keeps."""

    def __init__(self, one, two):
        super().__init__(one + two)


KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ProjsegError)
]


def travelled(error):
    return pickle.loads(error_to_bytes(error))


@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_projseg_arrive_as_they_are(kind):
    error = kind("PROJSEG_INTERNAL", "a 'b' \x1b c")
    found = travelled(error)
    assert (type(found), str(found), found.code) == (kind, str(error), error.code)
    assert found.code in CODES


def test_the_systems_number_arrives_too():
    found = travelled(StorageError("PROJSEG_STORAGE_FULL", "no room", 28))
    assert found.errno == 28


@pytest.mark.parametrize(
    "error",
    [
        TypeError("no"),
        KeyError("x"),
        MemoryError(),
        FileNotFoundError(2, "gone"),
        RecursionError("deep"),
        pa.lib.ArrowInvalid("not so"),
        ValueError(object),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    ],
    ids=repr,
)
def test_other_errors_keep_their_class(error):
    found = travelled(error)
    assert type(found) is type(error)
    assert found.args == error.args
    assert "In a worker of the query pool" in found.__notes__[0]


@pytest.mark.parametrize("error", [OddError(1, 2), TwoError("1", "2")], ids=repr)
def test_errors_that_cannot_be_made_again_are_named(error):
    found = travelled(error)
    assert (type(found), found.code) == (ProjsegError, "PROJSEG_INTERNAL")
    assert type(error).__name__ in found.message
    assert "In a worker of the query pool" in found.__notes__[0]
