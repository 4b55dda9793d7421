"""The generated edits are what their docstring says, and the same in every run."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from projseg.benchmarks import generator
from projseg.benchmarks.generator import (
    LATENESS_US,
    ROWS_PER_BLOCK,
    SCHEMA,
    SPAN_US,
    START_US,
    EditStream,
)
from projseg.errors import InvalidInputError

ROW_COUNT = ROWS_PER_BLOCK + 1000


def _micros(edits):
    return edits["time"].combine_chunks().cast(pa.int64()).to_numpy()


@pytest.fixture(scope="module")
def edits():
    return EditStream(ROW_COUNT).table()


def test_the_stream_has_the_asked_rows_and_schema(edits):
    assert edits.num_rows == ROW_COUNT
    assert edits.schema == SCHEMA
    assert [batch.num_rows for batch in EditStream(ROW_COUNT).batches()] == [ROWS_PER_BLOCK, 1000]
    assert all(column.null_count == 0 for column in edits.columns)


@pytest.mark.parametrize(
    ("values", "count"),
    [
        (generator.channels, 50),
        (generator.pages, 200_000),
        (generator.users, 500_000),
        (generator.countries, 200),
        (generator.devices, 5),
    ],
)
def test_vocabularies_are_distinct(values, count):
    assert len(values()) == count
    assert pc.count_distinct(values()).as_py() == count


def test_titles_are_about_twenty_characters():
    assert 18 <= pc.mean(pc.utf8_length(generator.pages())).as_py() <= 23


def test_the_same_seed_gives_the_same_rows_and_another_seed_does_not(edits):
    assert EditStream(ROW_COUNT).table().equals(edits)
    assert not EditStream(ROW_COUNT, seed=1).table().equals(edits)


def test_a_block_is_made_without_the_others(edits):
    assert pa.Table.from_batches([EditStream(ROW_COUNT).block(1)]).equals(
        edits.slice(ROWS_PER_BLOCK).combine_chunks()
    )


def test_rows_do_not_change_between_releases():
    """Results kept under benchmarks/results compare only while the rows stay the same."""
    rows = EditStream(1000).table().to_pylist()
    text = "\n".join(str({**row, "time": int(row["time"].timestamp() * 1e6)}) for row in rows)
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "9adc8d21e595ad71e72668df4e104525fedeababff8c77e1dbfeb7e7a653c8c0"
    )


@pytest.mark.parametrize("span_us", [SPAN_US, SPAN_US // 30])
def test_times_lie_in_the_span_in_whole_milliseconds_and_come_a_little_late(span_us):
    micros = _micros(EditStream(500_000, span_us=span_us).table())
    assert micros.min() >= START_US
    assert micros.max() < START_US + span_us
    assert not np.any(micros % 1000)
    assert np.ptp(micros) > 0.99 * span_us
    assert 0 < (np.maximum.accumulate(micros) - micros).max() <= LATENESS_US


def test_values_follow_zipf(edits):
    counts = np.sort(pc.value_counts(edits["channel"]).field("counts").to_numpy())[::-1]
    ranks = np.arange(1, 51)
    expected = np.log((ranks + 1) / ranks) / np.log(51) * ROW_COUNT
    assert np.all(np.abs(counts - expected) < 6 * np.sqrt(expected))


def test_measures_have_the_stated_shares_and_ranges(edits):
    zeros = {name: np.mean(edits[name].to_numpy() == 0) for name in ("added", "deleted")}
    assert zeros["added"] == pytest.approx(0.3, abs=0.01)
    assert zeros["deleted"] == pytest.approx(0.6, abs=0.01)
    assert pc.max(edits["added"]).as_py() <= 10_000
    assert np.mean(edits["robot"].to_numpy()) == pytest.approx(0.35, abs=0.01)
    cents = edits["price"].to_numpy() * 100
    assert np.allclose(cents, np.round(cents), atol=1e-6)
    assert 1.0 <= cents.min() / 100 < cents.max() / 100 < 1000.0


def test_no_rows_and_negative_rows():
    assert EditStream(0).table().num_rows == 0
    with pytest.raises(InvalidInputError, match="PROJSEG_BAD_ARGUMENT"):
        EditStream(-1)
