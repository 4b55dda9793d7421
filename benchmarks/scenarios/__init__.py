"""The closed list of scenarios: what is measured, each a record with its arguments."""

from __future__ import annotations

from typing import Final

from projseg.benchmarks.runner.scenario import Scenario
from projseg.benchmarks.scenarios.catalog_load import CATALOG
from projseg.benchmarks.scenarios.choices import CHOICES
from projseg.benchmarks.scenarios.engine_scenarios import ENGINE_SCENARIOS
from projseg.benchmarks.scenarios.index_lookups import INDEXES
from projseg.benchmarks.scenarios.many_segments import MANY_SEGMENTS
from projseg.benchmarks.scenarios.many_views import MANY_VIEWS
from projseg.benchmarks.scenarios.new_values import NEW_VALUES
from projseg.benchmarks.scenarios.object_stores import OBJECT_STORES
from projseg.benchmarks.scenarios.profiling import FIRST_ANSWER, PROFILE
from projseg.benchmarks.scenarios.star_queries import STAR_QUERIES
from projseg.benchmarks.scenarios.star_views import STAR_VIEWS
from projseg.benchmarks.scenarios.sweep import SWEEP
from projseg.benchmarks.scenarios.table_life import LIFE_SCENARIOS
from projseg.benchmarks.scenarios.view_questions import VIEWS
from projseg.errors import InvalidInputError, did_you_mean

SCENARIOS: Final[dict[str, Scenario]] = {
    scenario.name: scenario
    for scenario in (
        *ENGINE_SCENARIOS,
        SWEEP,
        FIRST_ANSWER,
        STAR_QUERIES,
        STAR_VIEWS,
        NEW_VALUES,
        *LIFE_SCENARIOS,
        OBJECT_STORES,
        MANY_SEGMENTS,
        VIEWS,
        MANY_VIEWS,
        INDEXES,
        CATALOG,
        CHOICES,
        PROFILE,
    )
}


def scenario_named(name: str) -> Scenario:
    """Return the scenario of a name.

    Raises
    ------
    InvalidInputError
        For a name that is not in the list.
    """
    if name not in SCENARIOS:
        raise InvalidInputError(
            "PROJSEG_BAD_ARGUMENT",
            f"'{name}' is not a scenario{did_you_mean(name, SCENARIOS)};"
            f" there are {', '.join(SCENARIOS)}",
        )
    return SCENARIOS[name]
