"""What warnings are worth on drives that no one here made, by nested cross-validation.

Real drivers of the 100-Car study are left out driver by driver, Apollo in the SVL
simulator (DeepScenario) road by road. All that is chosen or fitted for a share that was
left out is chosen and fitted on the others alone. The guard stands in the table with
the abstraction made by hand and with the one that `learn --abstraction auto` takes,
beside gradient boosting and logistic regression on the raw signals with what they did
in the last second, and the time to collision.

Every way to warn has its threshold picked so that at most the allowed share of the
clean runs that were left out has an alarm: what is compared is what the ways know, not
how well thresholds are set.

Behind each row stands how many of the allowed alarms there are, as risks that are equal
leave some unused, and what each share comes to with a threshold of its own. `--where`
shows where warnings are lost instead: in what is told, in the score or in its bands.

    python benchmarks/recordings.py ../shared/data/real [--only hundred_car] [--where]
"""

from __future__ import annotations

import argparse
import csv
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.files import write_json
from forewarn.abstractions.trace import Kept, Trace, TraceHeader
from forewarn.monitors.finding.choice import LOOKS_S, choose
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.finding.inputs import for_scores
from forewarn.monitors.finding.score import ScoreRecipe
from forewarn.monitors.finding.terms import Term, matrix
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.trust.foretold import Foretold, warned_in_time
from forewarn.monitors.trust.hindsight import Counting, Found, Judge
from forewarn.plugins.registry import make_world
from forewarn.scenarios.draws import filled
from forewarn.scenarios.schema import Scenario, load_scenario

ALLOWED = (0.05, 0.10)
FOLDS = 5
_DRIVE = Action("recorded")


@dataclass(frozen=True, slots=True)
class Recordings:
    """Runs on file under one law, and what a share of them has in common.

    Args:
        scenario: What is asked of them.
        runs: The runs.
        group: The driver or road of each.
    """

    scenario: Scenario
    runs: tuple[Kept, ...]
    group: tuple[str, ...]

    def shares(self) -> Iterator[tuple[list[int], list[int]]]:
        """The runs to learn from and those that are left out, share by share."""
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
        )  # fmt: skip


def hundred_car(row: dict[str, str]) -> str:
    return row["driver"]


def deepscenario(row: dict[str, str]) -> str:
    return row["setup"].split("/")[-1].split("-")[0]


SETS: dict[str, Callable[[dict[str, str]], str]] = {
    "hundred_car": hundred_car,
    "deepscenario": deepscenario,
}


def read(archive: Path, group: Callable[[dict[str, str]], str]) -> Recordings:
    """The runs of an archive, through the world that plays logs."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        (path,) = Path(folder).glob("*/scenario.yaml")
        scenario = load_scenario(str(path))
        with (path.parent / "runs.csv").open() as table:
            groups = tuple(group(row) for row in csv.DictReader(table))
        runs = tuple(_runs(scenario, str(path), len(groups)))
    return Recordings(scenario, runs, groups)


def _runs(scenario: Scenario, path: str, count: int) -> Iterator[Kept]:
    settings = filled(scenario.world.settings, {}, path, "world")
    world = make_world(scenario.world.name, settings, path)
    source = world.source
    vocabulary = scenario.abstraction.vocabulary
    for seed in range(count):
        frames = [world.reset(seed)]
        while world.ended() is None:
            frames.append(world.step(_DRIVE))
        header = TraceHeader(
            source.vocabulary, source.provides, source.period_s, scenario.name, seed
        )
        trace = Trace(header, tuple(frames), vocabulary=vocabulary)
        yield Kept.of(trace, source.provides)
    world.close()


Outcomes = dict[str, Foretold]
Way = Callable[[Recordings, Corpus, Sequence[int]], Iterator[Outcomes]]
"""Scores the runs that were left out; the corpus is of the others."""


def by_hand(told: Recordings, corpus: Corpus, out: Sequence[int]) -> Iterator[Outcomes]:
    yield from _watched(told, corpus, out, Found(told.scenario.abstraction))


def by_choice(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    scenario = told.scenario
    choice = choose(corpus, scenario.abstraction, scenario.horizon_s)
    print(f"  taken: {choice.evidence[0].name}", flush=True)
    yield from _watched(told, corpus, out, choice.found)


def by_score(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    """Bands of a score, whether or not they would be chosen."""
    yield from _watched(told, corpus, out, _scored(corpus))


def score_itself(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    """The score before it is cut into bands, with no chain."""
    (score,) = _scored(corpus).abstraction.scores

    def said(run: Kept) -> NDArray[np.float64]:
        height = matrix([Term(score.expression)], [run])[:, 0]
        risk: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-height))
        return risk

    yield from _said(told, corpus, out, said)


def _scored(corpus: Corpus) -> Found:
    family = for_scores(corpus.families(), corpus.runs, corpus.vocabulary)
    return ScoreRecipe(corpus, family, LOOKS_S[0])(range(len(corpus.runs)))


def _watched(
    told: Recordings, corpus: Corpus, out: Sequence[int], found: Found
) -> Iterator[Outcomes]:
    by = [found.counting(i) for i in range(len(corpus.runs))]
    judge = Judge.learn(
        corpus.runs, found.abstraction, corpus.laws, [told.scenario.horizon_s],
        Counting(), by,
    )  # fmt: skip
    for i in out:
        yield dict(judge.look(i, told.runs[i]))


def boosting(
    told: Recordings,
    corpus: Corpus,
    out: Sequence[int],
    look_s: float | None = None,
    **shape: Any,
) -> Iterator[Outcomes]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(
        max_iter=200, learning_rate=0.05, max_leaf_nodes=12, min_samples_leaf=80,
        l2_regularization=5.0, early_stopping=False, random_state=0, **shape,
    )  # fmt: skip
    yield from _fitted(told, corpus, out, model, look_s)


boosting_soon = partial(boosting, look_s=LOOKS_S[0])
"""As far ahead as bands of a score are fitted to tell."""


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
    """A classifier of moments: does a violation follow so soon, or in the horizon?"""
    from threadpoolctl import threadpool_limits

    horizon_s = told.scenario.horizon_s
    terms, rows = corpus.terms(
        for_scores(corpus.families(), corpus.runs, corpus.vocabulary)
    )
    (law,) = corpus.laws
    moments = corpus.moments(look_s or horizon_s, law)
    with threadpool_limits(1):
        model.fit(rows[moments.row], moments.doomed)
        yield from _said(
            told, corpus, out,
            lambda run: model.predict_proba(matrix(terms, [run]))[:, 1],
        )  # fmt: skip


def time_to_collision(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    def haste(run: Kept) -> NDArray[np.float64]:
        left_s = run.signals["time_to_collision"].astype(float)
        return 1.0 / np.maximum(np.where(np.isnan(left_s), np.inf, left_s), 0.01)

    yield from _said(told, corpus, out, haste)


def _said(
    told: Recordings,
    corpus: Corpus,
    out: Sequence[int],
    risk: Callable[[Kept], NDArray[np.float64]],
) -> Iterator[Outcomes]:
    """What a number a frame, the higher the worse, comes to as a risk."""
    horizon_s = told.scenario.horizon_s
    for i, found in zip(out, by_hand(told, corpus, out), strict=True):
        risks = risk(told.runs[i])
        yield {
            law: replace(each, risks={horizon_s: risks[: len(each.times_s)]})
            for law, each in found.items()
        }


WAYS: dict[str, Way] = {
    "guard, --abstraction auto": by_choice,
    "guard, made by hand": by_hand,
    "guard, bands of a score": by_score,
    "boosting with lags": boosting,
    "boosting, one second ahead": boosting_soon,
    "logistic with lags": logistic,
    "ttc": time_to_collision,
}
WHERE: dict[str, Way] = {
    "ttc": time_to_collision,
    "boosting": boosting_soon,
    "boosting, two terms a tree": partial(boosting_soon, max_depth=2),
    "boosting, one term a tree": partial(
        boosting_soon, interaction_cst="no_interactions"
    ),
    "the score": score_itself,
    "bands of the score": by_score,
}
"""From what can be known at a second's notice to what the guard makes of it."""


def table(told: Recordings, ways: dict[str, Way]) -> Iterator[dict[str, Any]]:
    """A row a way: what it warned of, and how early, in all that was left out."""
    horizon_s = told.scenario.horizon_s
    for name, way in ways.items():
        shares = [
            [each for of_run in way(told, told.corpus(others), out)
             for each in of_run.values()]
            for others, out in told.shares()
        ]  # fmt: skip
        found = [each for share in shares for each in share]
        row: dict[str, Any] = {"way": name}
        for allowed in ALLOWED:
            warned, ahead_s = warned_in_time(found, horizon_s, allowed)
            row[f"{allowed:g}"] = {
                "warned": warned,
                "ahead_s": ahead_s,
                "false_alarms": alarmed(found, horizon_s, allowed),
                "by_share": [
                    warned_in_time(share, horizon_s, allowed)[0] for share in shares
                ],
            }
        yield row


def alarmed(found: Sequence[Foretold], horizon_s: float, allowed: float) -> float:
    """The share of clean runs with an alarm, where this one is allowed."""
    tops = np.sort(
        [each.risks[horizon_s].max(initial=0.0) for each in found
         if each.broken_s is None]
    )[::-1]  # fmt: skip
    return float((tops > tops[int(allowed * len(tops) + 1e-9)]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the archives are")
    parser.add_argument("--only", choices=SETS, help="one of the two")
    parser.add_argument("--way", choices=[*WAYS, *WHERE], help="one way to warn alone")
    parser.add_argument("--where", action="store_true", help="where warnings are lost")
    parser.add_argument("--json", type=Path, help="where the figures go too")
    wish = parser.parse_args()
    ways = WHERE if wish.where else WAYS
    if wish.way:
        ways = {wish.way: (WAYS | WHERE)[wish.way]}
    figures: dict[str, list[dict[str, Any]]] = {}
    for name in [wish.only] if wish.only else SETS:
        told = read(wish.folder / f"{name}.tar.xz", SETS[name])
        print(
            f"{name}: {len(told.runs)} runs of {len(set(told.group))}; the share of"
            " violations warned of in time, and how early on average"
        )
        print(f"{'':28}" + "".join(f"at {each:<14g}" for each in ALLOWED))
        figures[name] = []
        for row in table(told, ways):
            figures[name].append(row)
            cells = (row[f"{each:g}"] for each in ALLOWED)
            text = "".join(
                f"{c['warned']:.2f}, {c['ahead_s']:.1f} s      " for c in cells
            )
            last = row[f"{ALLOWED[-1]:g}"]
            own = " ".join(f"{warned:.2f}" for warned in last["by_share"])
            print(
                f"{row['way']:28}{text}{last['false_alarms']:.3f} alarmed; share by"
                f" share {own}",
                flush=True,
            )
    if wish.json:
        write_json(wish.json, figures)


if __name__ == "__main__":
    main()
