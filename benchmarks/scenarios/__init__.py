"""Scenarios, listed in scenarios.toml, with the modules of their functions."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from projseg.benchmarks.bench import Scenario
from projseg.benchmarks.workload import require_known


def _scenario(name: str, measures: str, run: str, arguments: str, small: str = "") -> Scenario:
    words = (word.partition("=") for word in arguments.split())
    defaults = {argument: _value(text) for argument, _, text in words}
    scenario = Scenario(name, measures, defaults, f"{__name__}.{run}")
    scenario.small.update(scenario.given_arguments(small.split()))
    return scenario


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


_FILE: Final = Path(__file__).with_name("scenarios.toml").read_text(encoding="utf-8")
SCENARIOS: Final = {name: _scenario(name, **one) for name, one in tomllib.loads(_FILE).items()}


def scenario_named(name: str) -> Scenario:
    """Return the scenario of a name; refuse one that is not in the list."""
    require_known(name, SCENARIOS, "a scenario")
    return SCENARIOS[name]
