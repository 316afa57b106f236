"""Compares warnings on held-out runs: the runs, and the methods of warning.

The benchmarks of the shipped models simulate held-out runs, and fit the other methods
to the training runs of the model. The benchmark of recordings holds out some of the
recorded runs. Each threshold is chosen on the held-out runs, because the comparison is
about the information that the methods have, not about finding thresholds.
"""

from __future__ import annotations

import csv
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import ForewarnError
from forewarn.abstractions.expression.tree import Compare, Number
from forewarn.abstractions.trace import Kept
from forewarn.monitors.chains.model import load_models
from forewarn.monitors.evaluation.foretold import Foretold, Leads
from forewarn.monitors.finding.choice import LEAST, LOOKS_S, choose
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.finding.score import ScoreRecipe
from forewarn.monitors.finding.terms import Term, for_scores, matrix
from forewarn.monitors.finding.tree import TreeRecipe
from forewarn.monitors.guarding.policy import Policy, load_policy
from forewarn.monitors.risk.evidence import needed_abstraction
from forewarn.monitors.trust.hindsight import Found, Judge
from forewarn.scenarios.measuring.pairs import outcomes, prolonged
from forewarn.scenarios.measuring.recorded import kept_runs
from forewarn.scenarios.measuring.seeds import refuse_trained, seeds_of
from forewarn.scenarios.running.campaign import Kept as KeptOf
from forewarn.scenarios.running.campaign import (
    campaign,
    frames_kept,
    jobs,
    kept_in,
    pool,
)
from forewarn.scenarios.running.episode import Episode, by_seed
from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.shipped import Shipped
from forewarn.scenarios.training.acting import thresholds_of
from forewarn.scenarios.training.train import collected

FOLDS = 5
ALLOWED = 0.10
"""The false-alarm rate for which the thresholds of shipped models are chosen."""

EXACT = 1e-9
"""The tolerance of comparisons, because floating-point fractions are rounded."""

GUARD = "guard, as it ships"


def drive(
    scenario: Scenario, seeds: Sequence[int], names: Sequence[str] = ()
) -> tuple[list[Kept], list[Episode]]:
    """Runs these seeds without a guard; by default, all signals are kept."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        kept: list[KeptOf] = [frames_kept(folder)]
        todo = jobs(plan(scenario), scenario, seeds, folder, kept)
        episodes = by_seed(list(campaign(todo, pool(1))))
        if failed := next((each for each in episodes if each.failed), None):
            raise ForewarnError(f"seed {failed.seed} failed: {failed.error}")
        return kept_runs(kept_in(folder, episodes), names or None), episodes


@dataclass(frozen=True, slots=True)
class Recordings:
    """The runs of a scenario, with the driver or the road of each run."""

    scenario: Scenario
    runs: tuple[Kept, ...]
    group: tuple[str, ...]

    def shares(self) -> Iterator[tuple[list[int], list[int]]]:
        """Yields the training runs and the held-out runs of each fold."""
        names = sorted(set(self.group))
        count = min(FOLDS, len(names))
        share = {name: number % count for number, name in enumerate(names)}
        for number in range(count):
            out = [i for i, name in enumerate(self.group) if share[name] == number]
            yield sorted(set(range(len(self.runs))) - set(out)), out

    def corpus(self, among: Sequence[int]) -> Corpus:
        hand = self.scenario.abstraction
        runs = [self.runs[i] for i in among]
        return Corpus(
            runs, self.scenario.laws, hand.vocabulary,
            hand.period_s or runs[0].header.period_s or 0.0,
            [self.group[i] for i in among],
        )  # fmt: skip


def archived(archive: Path, group: Callable[[dict[str, str]], str]) -> Recordings:
    """Reads the runs of an archive through the world that replays logs."""
    with tempfile.TemporaryDirectory() as unpacked:
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        (path,) = Path(unpacked).glob("*/scenario.yaml")
        scenario = load_scenario(str(path))
        with (path.parent / "runs.csv").open() as table:
            groups = tuple(group(row) for row in csv.DictReader(table))
        runs, _ = drive(scenario, range(len(groups)))
    return Recordings(scenario, tuple(runs), groups)


# -- methods of warning

Outcomes = dict[str, Foretold]
Way = Callable[[Recordings, Corpus, Sequence[int]], Iterator[Outcomes]]
"""Scores the held-out runs; the corpus consists of the training runs."""


def shipped(files: Shipped) -> Way:
    """Returns the warning method of the shipped guard."""

    def way(told: Recordings, corpus: Corpus, out: Sequence[int]) -> Iterator[Outcomes]:
        (law, *_), policy = corpus.laws, load_policy(files.policy)
        model = next(m for m in load_models(files.model) if law.told in m.laws)
        judge = Judge(
            model, needed_abstraction(model), corpus.laws, [told.scenario.horizon_s],
            corpus.period_s, calibration=policy.calibration,
        )  # fmt: skip
        for i in out:
            yield dict(judge.look(i, told.runs[i]))

    return way


def by_hand(told: Recordings, corpus: Corpus, out: Sequence[int]) -> Iterator[Outcomes]:
    yield from _watched(told, corpus, out, Found(told.scenario.abstraction))


def by_choice(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    scenario = told.scenario
    choice = choose(corpus, scenario.abstraction, scenario.horizon_s)
    print(f"  taken: {choice.evidence[0].name}", flush=True)
    yield from _watched(told, corpus, out, choice.found)


@lru_cache(maxsize=FOLDS)
def _bands_of_score(corpus: Corpus) -> Found:
    """Finds the bands of a hazard score, even if they would not be selected."""
    family = for_scores(corpus.families(), corpus.runs, corpus.vocabulary)
    return ScoreRecipe(corpus, family, LOOKS_S[0])(range(len(corpus.runs)))


def by_score(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    yield from _watched(told, corpus, out, _bands_of_score(corpus))


def by_tree(told: Recordings, corpus: Corpus, out: Sequence[int]) -> Iterator[Outcomes]:
    """Warns with the leaves of a tree on the signals of the first family."""
    family, horizon_s = corpus.families()[0], told.scenario.horizon_s
    tree = TreeRecipe(corpus, family, horizon_s, LEAST[-1])
    yield from _watched(told, corpus, out, tree(range(len(corpus.runs))))


def by_curves(
    told: Recordings, corpus: Corpus, out: Sequence[int], bands: bool = False
) -> Iterator[Outcomes]:
    """Scores frames by the hazard score or its band, which shows the loss without a
    chain.
    """
    abstraction = _bands_of_score(corpus).abstraction
    (score,) = abstraction.scores
    cuts = [
        node.right.value
        for node in (each.expression for each in abstraction.predicates)
        if isinstance(node, Compare) and repr(node.left) == score.name
        if isinstance(node.right, Number)
    ]

    def risk(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        if bands:
            return np.searchsorted(np.sort(cuts), rows[:, 0], side="right") / len(cuts)
        odds: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-rows[:, 0]))
        return odds

    yield from _by_terms(told, corpus, out, [Term(score.expression)], risk)


def _watched(
    told: Recordings, corpus: Corpus, out: Sequence[int], found: Found
) -> Iterator[Outcomes]:
    by = [found.counting(i) for i in range(len(corpus.runs))]
    judge = Judge.learn(
        corpus.runs, found.abstraction, corpus.laws, [told.scenario.horizon_s],
        by,
    )  # fmt: skip
    for i in out:
        yield dict(judge.look(i, told.runs[i]))


def boosting_with_lags(
    told: Recordings, corpus: Corpus, out: Sequence[int], look_s: float | None = None
) -> Iterator[Outcomes]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=200, learning_rate=0.05, max_leaf_nodes=12, min_samples_leaf=80,
        l2_regularization=5.0, early_stopping=False, random_state=0,
    )  # fmt: skip
    yield from _fitted(told, corpus, out, model, look_s)


boosting_soon = partial(boosting_with_lags, look_s=LOOKS_S[0])
"""Boosting with the short horizon to which hazard scores are fitted."""


def logistic(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
        StandardScaler(),
        LogisticRegression(C=0.05, max_iter=300),
    )
    yield from _fitted(told, corpus, out, model)


def _fitted(
    told: Recordings,
    corpus: Corpus,
    out: Sequence[int],
    model: Any,
    look_s: float | None = None,
) -> Iterator[Outcomes]:
    """Scores frames with a classifier of violations within `look_s`, by default the
    horizon.
    """
    from threadpoolctl import threadpool_limits

    terms, rows = corpus.terms(
        for_scores(corpus.families(), corpus.runs, corpus.vocabulary)
    )
    (law,) = corpus.laws
    moments = corpus.moments(look_s or told.scenario.horizon_s, law)
    with threadpool_limits(1):
        model.fit(rows[moments.row], moments.doomed)
        yield from _by_terms(
            told, corpus, out, terms, lambda rows: model.predict_proba(rows)[:, 1]
        )


def _by_terms(
    told: Recordings,
    corpus: Corpus,
    out: Sequence[int],
    terms: Sequence[Term],
    risk: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Iterator[Outcomes]:
    """Scores frames by the values of terms."""
    runs = [told.runs[i] for i in out]
    ends = np.cumsum([len(run) for run in runs])[:-1]
    risks = iter(np.split(risk(matrix(terms, runs)), ends))
    yield from scored(told, corpus, out, lambda _: next(risks))


def haste(signal: str) -> Way:
    """Returns a method that scores frames by a signal with a time; a shorter time is
    worse.
    """

    def way(told: Recordings, corpus: Corpus, out: Sequence[int]) -> Iterator[Outcomes]:
        def soon(run: Kept) -> NDArray[np.float64]:
            left_s = run.signals[signal].astype(float)
            return 1.0 / np.maximum(np.where(np.isnan(left_s), np.inf, left_s), 0.01)

        yield from scored(told, corpus, out, soon)

    return way


def scored(
    told: Recordings,
    corpus: Corpus,
    out: Sequence[int],
    risk: Callable[[Kept], NDArray[np.float64]],
) -> Iterator[Outcomes]:
    """Treats a number for each frame as a risk; a higher number is worse."""
    horizon_s = told.scenario.horizon_s
    for i, found in zip(out, by_hand(told, corpus, out), strict=True):
        risks = risk(told.runs[i])
        yield {
            law: replace(each, risks={horizon_s: risks[: len(each.times_s)]})
            for law, each in found.items()
        }


LEARNED: dict[str, Way] = {
    "guard, made by hand": by_hand,
    "guard, a tree": by_tree,
    "boosting with lags": boosting_with_lags,
    "logistic with lags": logistic,
}
LEDGER: dict[str, Way] = {
    "boosting, one second ahead": boosting_soon,
    "score, without bands": by_curves,
    "bands of a score, without a chain": partial(by_curves, bands=True),
    "guard, bands of a score": by_score,
    "guard, --abstraction auto": by_choice,
}
"""The rows of the loss ledger, from boosting to the guard; each row adds one step."""


# -- shipped models on held-out runs


@dataclass(frozen=True, slots=True)
class Fresh:
    """The training runs of a shipped model, and held-out runs.

    Args:
        files: The shipped files.
        told: All runs, the training runs first.
        learned: The number of training runs.
        seeds: The seeds of the held-out runs.
    """

    files: Shipped
    told: Recordings
    learned: int
    seeds: range

    def found(self, ways: dict[str, Way], laws: int) -> dict[str, list[Foretold]]:
        """Returns the scores of each method on the held-out runs, for one of the
        laws.
        """
        scenario = self.told.scenario
        law = scenario.laws[laws]
        alone = replace(self.told, scenario=replace(scenario, laws=(law,)))
        corpus = alone.corpus(range(self.learned))
        out = range(self.learned, len(alone.runs))
        return {
            name: [each[law.name] for each in way(alone, corpus, out)]
            for name, way in ways.items()
        }


def fresh(name: str, seeds: range, trained: Path, kept: Path) -> Fresh:
    """Simulates held-out runs and the training runs of a model, or loads those that are
    kept.
    """
    scenario, files = load_scenario(name), Shipped.in_folder(trained, name)
    models = load_models(files.model)
    for each in models:
        refuse_trained(each, name, seeds)
    known = [seed for each in models[0].training["files"] for seed in seeds_of(each)]
    learned, held_out = (
        kept_runs(collected(scenario, each, pool(1), kept / name))
        for each in (sorted(known), seeds)
    )
    runs = (*learned, *held_out)
    told = Recordings(scenario, runs, ("",) * len(runs))
    return Fresh(files, told, len(learned), seeds)


GUARDED = (
    "scenario", "threshold", "released after", "runs", "violations without", "left",
    "caused by the guard", "runs with an intervention", "clean runs slowed by a tenth",
    "arrive or finish",
)  # fmt: skip


def with_guard(of: Fresh, policy: Policy, most: int) -> tuple[object, ...]:
    """Repeats some of the held-out runs with the guard intervening.

    Returns a row of the table `GUARDED`.
    """
    runner = runner_of(plan(of.told.scenario, of.files.model, policy))
    _, before = drive(of.told.scenario, of.seeds[:most])
    pairs = [(each, runner.run(each.seed)) for each in before]
    clean = [(b, a) for b, a in pairs if not (b.violations or a.violations)]
    at = ", ".join(f"{each:g}" for each in thresholds_of(policy).values())
    has_goal = of.told.scenario.goal is not None
    alone, acted = (outcomes(runs, has_goal) for runs in zip(*pairs, strict=True))
    return (
        f"`{of.told.scenario.name}`", at, f"{policy.hold_s:g} s", len(pairs),
        sum(bool(b.violations) for b, _ in pairs),
        sum(bool(a.violations) for _, a in pairs),
        sum(bool(a.violations) and not b.violations for b, a in pairs),
        sum(bool(a.interventions) for _, a in pairs),
        f"{sum(prolonged(b, a) for b, a in clean)} of {len(clean)}",
        f"{acted['arrived']} ({alone['arrived']} without)",
    )  # fmt: skip


def leads(
    early_s: Sequence[float] | NDArray[np.float64], soon_s: float = 1.0
) -> tuple[str, ...]:
    """Returns the cells with the figures for the lead times of all violations."""
    share, mean_s, middle_s, sooner = Leads.of(np.asarray(early_s), soon_s)
    return f"{share:.2f}", f"{mean_s:.1f} s", f"{middle_s:.1f} s", f"{sooner:.2f}"
