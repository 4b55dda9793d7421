"""What follows from stored states is what base rows answer, value and type; and it is used."""

import random
from collections import Counter

import pyarrow as pa
import pytest
from derived_cases import (
    KINDS,
    answered,
    asked,
    filtered_for_its_part,
    make_table,
    of_ranges,
    pairs,
)
from matching_tables import comparable
from scale import IS_NIGHTLY, tries

import projseg
from projseg.errors import ProjsegError

PAIRS = tries(1_000, 60)
UNANSWERED_SHARE_MAX = 0.08
"""Some draws may raise an error in some row, which no stored state would."""


@pytest.mark.parametrize("seed", range(4) if IS_NIGHTLY else [5])
def test_answers_of_projections_are_those_of_base_rows(tmp_path, seed):
    r = random.Random(seed)
    drawn = pairs(r, PAIRS)
    found = Counter()
    for start in range(0, len(drawn), 50):
        part = drawn[start : start + 50]
        table = make_table(r, str(tmp_path / str(start)), part)
        for number, (kind, declared, question) in enumerate(part):
            expected = answer_of(table.query, question, {"noProjections": True})
            answer = answered(table, number, question)
            if answer is not None:
                found[kind] += 1
                assert sorted_rows(answer) == sorted_rows(expected), (declared, question)
                assert answer.schema == expected.schema, (declared, question)
    assert found.total() >= (1 - UNANSWERED_SHARE_MAX) * len(drawn), found
    assert {kind.__name__ for kind in KINDS} == set(found)


@pytest.mark.parametrize("deleted", [None, "x % 7 = 3"])
def test_each_row_is_answered_for_once(tmp_path, deleted):
    r = random.Random(8)
    kinds = (filtered_for_its_part, of_ranges)
    drawn = [(kind.__name__, *kind(r)) for kind in kinds for _ in range(tries(200, 15))]
    intervals = (None, "2024-03-09T05:10/2024-03-11T20:00")
    found = Counter()
    for start in range(0, len(drawn), 50):
        part = drawn[start : start + 50]
        table = make_table(r, str(tmp_path / str(start)), part)
        if deleted is not None:
            table.delete(deleted)
        for number, (kind, declared, question) in enumerate(part):
            for interval in intervals:
                asked_for = {**asked(question), "interval": interval}
                context = {"useProjection": f"p{number}"}
                try:
                    sources = table.explain(**asked_for, context=context).sources
                except ProjsegError:
                    continue
                found[kind] += len(sources) > 1
                answer = table.query(**asked_for, context=context)
                expected = table.query(**asked_for, context={"noProjections": True})
                assert sorted_rows(answer) == sorted_rows(expected), (declared, question, interval)
    assert all(found[kind.__name__] > 4 for kind in kinds), found


def answer_of(ask, question, context):
    """Return the answer, or the error that it ends in."""
    try:
        return ask(**asked(question), context=context)
    except ProjsegError as error:
        return error


def sorted_rows(answer):
    """Return comparable rows in one order; of an error, its code."""
    if isinstance(answer, ProjsegError):
        return answer.code
    found = (tuple(map(comparable, row.values())) for row in answer.to_pylist())
    return sorted(found, key=repr)


@pytest.mark.parametrize(
    ("stored", "call"),
    [
        ("hll_sketch_agg(x, 12)", "hll_sketch_agg(x, 8)"),
        ("theta_sketch_agg(x, 12)", "theta_sketch_agg(x, 8)"),
        ("kll_sketch_agg_bigint(x, 400)", "kll_sketch_agg_bigint(x, 20)"),
    ],
)
def test_partial_answers_hold_sketches_of_the_size_asked_for(tmp_path, stored, call):
    rows = pa.table({"g": [n % 2 for n in range(20_000)], "x": range(20_000)})
    projection = projseg.Projection("p", ["g"], [f"{stored} AS s"])
    table = projseg.Table.create(str(tmp_path), rows.schema, projections=[projection])
    table.append(rows)
    for group_by in ("g", None):
        query = {"group_by": group_by, "aggregators": f"{call} AS s", "aggregation": "partial"}
        answer = table.query(projseg.Query(**query, context={"useProjection": "p"}))
        expected = table.query(projseg.Query(**query, context={"noProjections": True}))
        if stored.startswith("kll"):
            assert lengths(answer["s.sketch"]) == lengths(expected["s.sketch"])
        else:
            assert sorted_rows(answer) == sorted_rows(expected)


def lengths(sketches):
    """Return the sketches' lengths to about a value or two, which ranks may fall on."""
    return [len(sketch) // 32 for sketch in sketches.to_pylist()]
