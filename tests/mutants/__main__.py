"""Try small mutants of modules on the tests: `python -m tests.mutants [module ...]`.

An unexplained survivor fails the run, and so does a reason whose mutant is gone or is killed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from tests.mutants.explanations import Explanation, read_explanations
from tests.mutants.modules import SETTLED, TESTS
from tests.mutants.mutations import Mutant, mutants_of
from tests.mutants.trial import ROOT, TOO_LONG, Outcome, try_mutants


def main() -> int:
    """Return 0 if each survivor is explained, and each explained mutant survives."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument(
        "module", nargs="*", help="files from the repository's root; those that are settled if none"
    )
    parser.add_argument("--sample", type=int, help="how many mutants of each module to try")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument(
        "--once", action="store_true", help="give survivors no second trial in a new process"
    )
    options = parser.parse_args()
    unknown = set(options.module) - TESTS.keys()
    if unknown:
        parser.error(f"no tests are stated for {', '.join(sorted(unknown))} in modules.py")
    explanations = read_explanations()
    paths = options.module or list(SETTLED)
    problems = [problem for path in paths for problem in _try_module(path, explanations, options)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _try_module(
    path: str, explanations: list[Explanation], options: argparse.Namespace
) -> list[str]:
    """Print what became of a module's mutants; return what is wrong."""
    mutants = mutants_of((ROOT / path).read_text())
    own = [each for each in explanations if each.path == path]
    stale = [each for each in own if not any(each.fits(path, mutant) for mutant in mutants)]
    problems = [f"{path}: a reason fits no mutant: {each.was}" for each in stale]
    if options.sample is not None and options.sample < len(mutants):
        chosen = random.Random(options.seed).sample(mutants, options.sample)
        mutants = sorted(chosen, key=lambda mutant: mutant.line)

    def reason_of(mutant: Mutant) -> Explanation | None:
        return next((each for each in own if each.fits(path, mutant)), None)

    outcomes: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        outcomes.append(outcome)
        mutant, reason = outcome.mutant, reason_of(outcome.mutant)
        if outcome.survived != (reason is not None):
            state = "survives" if outcome.survived else f"has a reason but fails {outcome.result}"
            text = f"{path}:{mutant.line} {state}\n  - {mutant.was}\n  + {mutant.becomes}"
            problems.append(text)
            print(text, file=sys.stderr, flush=True)

    started = time.monotonic()
    try_mutants(
        path,
        TESTS[path],
        mutants,
        lambda mutant: not options.once and reason_of(mutant) is None,
        tell,
    )
    survivors = [outcome for outcome in outcomes if outcome.survived]
    explained = sum(reason_of(outcome.mutant) is not None for outcome in survivors)
    timed_out = sum(outcome.result == TOO_LONG for outcome in outcomes)
    print(
        f"{path}: {len(outcomes)} mutants, {len(outcomes) - len(survivors)} killed "
        f"({timed_out} by the time limit), {len(survivors)} survived, {explained} with a reason, "
        f"{time.monotonic() - started:.0f} s",
        flush=True,
    )
    return problems


if __name__ == "__main__":
    sys.exit(main())
