"""Random statements that change rows of random declared tables, against joins by hand."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from row_changes import Life
from scale import IS_NIGHTLY, tries
from spark_sql import using

LIVES, STEPS = tries(20, 2), 10 if IS_NIGHTLY else 3


@pytest.mark.timeout(7200)
def test_random_changes_leave_what_joins_by_hand_leave(spark, tmp_path):
    kinds = Counter()
    for seed in range(LIVES):
        dice = random.Random(seed)
        settings = {
            "spark.sql.timestampType": dice.choice(["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"]),
            "spark.sql.storeAssignmentPolicy": dice.choice(["ANSI", "ANSI", "STRICT"]),
            "local_maxBytes": dice.choice(["64m", "0"]),
        }
        with using(spark, enabled="true", **settings):
            life = Life(spark, "random_changes", dice)
            life.create(tmp_path / str(seed))
            try:
                for _ in range(STEPS):
                    life.step()
                    kinds.update(life.kinds[-1:])
            finally:
                life.drop()
    assert sum(kinds.values()) == LIVES * STEPS
