"""Two laws and one abstraction, or one for each: what is warned of in runs left out.

Of a scenario's runs the abstraction is found and the chain learned on the first half,
once for all laws together and once law by law, as `learn --abstraction auto` does. On
the other half it prints, law by law, the share of violations that is warned of in time
and how early, at no more than one false alarm in ten clean runs.

    python benchmarks/laws.py [SCENARIO] [--law NAME_OR_FORMULA …] [--episodes 600]

With --runs, a folder of traces is read instead of driven.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from forewarn.abstractions.trace import Kept
from forewarn.monitors.finding.by_law import Chosen, choose_by_law
from forewarn.monitors.finding.choice import choose
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.trust.foretold import Foretold, warned_in_time
from forewarn.monitors.trust.hindsight import Counting, Judge
from forewarn.scenarios.measuring.recorded import recorded_runs
from forewarn.scenarios.running.campaign import pool
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.training.runs import kept_runs
from forewarn.scenarios.training.train import collected

SEED = 5_100_000
ALLOWED = 0.10


def judged(
    corpus: Corpus, chosen: Sequence[Chosen], fresh: Sequence[Kept], horizon_s: float
) -> Iterator[tuple[str, list[Foretold]]]:
    """What was foretold of each law in runs that nothing was made of."""
    for each in chosen:
        found = each.choice.found
        laws = [part for law in each.laws for part in law.parts or (law,)]
        judge = Judge.learn(
            corpus.runs, found.abstraction, laws, [horizon_s], Counting(),
            [found.counting(i) for i in range(len(corpus.runs))],
        )  # fmt: skip
        told: dict[str, list[Foretold]] = {law.name: [] for law in laws}
        for number, run in enumerate(fresh):
            for law, foretold in judge.look(number, run):
                told[law].append(foretold)
        yield from told.items()


def compare(scenario: Scenario, laws: Sequence[Law], runs: Sequence[Kept]) -> None:
    """Prints the table."""
    hand, horizon_s = scenario.abstraction, scenario.horizon_s
    half = len(runs) // 2
    period_s = hand.period_s or runs[0].header.period_s
    assert period_s is not None
    parts = [part for law in laws for part in law.parts or (law,)]
    corpus = Corpus(runs[:half], parts, hand.vocabulary, period_s)
    together = Chosen(tuple(laws), choose(corpus, None, horizon_s))
    apart = choose_by_law(corpus, laws, None, horizon_s)
    print(f"{scenario.name}: learned from {half} runs, tried on {len(runs) - half}")
    for name, chosen in (("one for all", [together]), ("one a law", apart)):
        for law, told in judged(corpus, chosen, runs[half:], horizon_s):
            broken = sum(each.broken_s is not None for each in told)
            share, ahead_s = warned_in_time(told, horizon_s, ALLOWED)
            print(
                f"  {name:12} {law:16} {round(share * broken)} of {broken} warned of,"
                f" {ahead_s:.1f} s ahead"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="?", default="tiny-road")
    parser.add_argument("--law", action="append", default=[], help="a further law")
    parser.add_argument("--episodes", type=int, default=600)
    parser.add_argument("--runs", type=Path, help="a folder of traces")
    options = parser.parse_args()
    scenario = load_scenario(options.scenario)
    vocabulary = scenario.abstraction.vocabulary
    more = [
        law for text in options.law for law in find_laws(text, vocabulary=vocabulary)
    ]
    with TemporaryDirectory() as folder:
        if options.runs is not None:
            stored = recorded_runs(options.runs)[: options.episodes]
        else:
            seeds = range(SEED, SEED + options.episodes)
            stored = collected(scenario, seeds, pool(2, None), Path(folder))
        compare(scenario, [*scenario.laws, *more], kept_runs(stored))


if __name__ == "__main__":
    main()
