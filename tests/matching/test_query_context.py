import pytest

from projseg.algebra.query.context import QueryContext, parse_context
from projseg.errors import InvalidInputError


def test_nothing_given_is_the_default():
    assert parse_context(None) == QueryContext() == parse_context({})
    assert parse_context(QueryContext(threads=3)).threads == 3


def test_keys_are_case_insensitive_and_values_may_be_text():
    found = parse_context(
        {
            "USEPROJECTION": "hourly",
            "forceprojections": "TRUE",
            "noProjections": False,
            "ExcludeProjections": "a, b",
            "timeZone": "America/Los_Angeles",
            "threads": "4",
        }
    )
    assert found == QueryContext(
        use_projection="hourly",
        force_projections=True,
        exclude_projections=frozenset(("a", "b")),
        timezone="America/Los_Angeles",
        threads=4,
    )
    assert parse_context({"excludeProjections": ["a", "b"]}).exclude_projections == {"a", "b"}
    assert parse_context({"useProjection": None}) == QueryContext()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"useProjections": "x"}, ["useProjections", "did you mean 'useProjection'"]),
        ({"nonsense": 1}, ["nonsense", "forceProjections"]),
        ({"forceProjections": "yes"}, ["forceProjections", "true or false"]),
        ({"useProjection": 3}, ["useProjection", "name"]),
        ({"excludeProjections": 3}, ["excludeProjections", "names"]),
        ({"timezone": "Mars/Olympus"}, ["Mars/Olympus"]),
        ({"timezone": 3}, ["timezone"]),
        ({"threads": "many"}, ["threads", "count"]),
        ({"threads": 0}, ["threads", "from 1 to 256"]),
    ],
)
def test_what_is_not_understood_is_refused(options, words):
    with pytest.raises(InvalidInputError) as caught:
        parse_context(options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_no_projections_wins_over_force():
    assert parse_context({"forceProjections": True}).is_forced
    assert parse_context({"useProjection": "a"}).is_forced
    assert not parse_context({"useProjection": "a", "noProjections": True}).is_forced
