"""`forewarn train`: collects runs, learns a model and tunes a policy for a scenario."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from forewarn.abstractions.errors import naming
from forewarn.cli.command import (
    Count,
    Folder,
    Formerly,
    LawNames,
    Seed,
    command,
)
from forewarn.cli.episodes import (
    counted,
)
from forewarn.cli.groups import (
    Working,
)
from forewarn.cli.printing import (
    printed,
    progress,
    say,
    shown,
    table,
)
from forewarn.cli.tune import promised

if TYPE_CHECKING:
    from forewarn.abstractions.readers.stored import Stored
    from forewarn.scenarios.running.campaign import Kept
    from forewarn.scenarios.schema import Scenario
    from forewarn.scenarios.training.train import Shown, Trained


EPISODES = 1000
"""The default number of runs."""


@command()
def train(
    scenarios: tuple[Annotated[str, "SCENARIO…"], ...],
    /,
    *,
    episodes: Annotated[int | None, Count(min=10)] = None,
    seed: Seed = 0,
    rerun: Annotated[bool, Formerly("--again")] = False,
    ordinary: bool = False,
    working: Working,
    runs: Folder | None = None,
    law: LawNames = (),
    out: Folder,
) -> None:
    """Collect runs of each SCENARIO, learn a model and tune thresholds.

    This command combines `collect`, `learn --abstraction auto` and `tune`, but reads
    each run only once. Up to --jobs scenarios are trained at a time. The model is
    learned from training runs, the risks are calibrated on calibration runs, and the
    thresholds are set on calibration and tuning runs. If no threshold achieves its
    guarantee, no policy is written and the exit status is 1. The shipped models were
    created with this command. --rerun trains on the same runs again. Most shipped
    models come from earlier versions, so training them again gives different models.

    \b
    Examples:
      forewarn train s3 --rerun --out trained
      forewarn train tiny-road --episodes 200 --out trained
      forewarn train tiny-road --ordinary --episodes 4000 --out trained
      forewarn run tiny-road --model trained/tiny-road.model.json.gz \\
        --policy trained/tiny-road.policy.yaml

    Args:
        episodes: Number of runs, with consecutive seeds (default: 1000). With
            --ordinary: total number of runs; if it exceeds the number of tuning runs,
            new runs are added (default: only the tuning runs).
        seed: Seed of the first run.
        rerun: Train on the same runs as the shipped models.
        ordinary: Keep the models and thresholds in --out. Repeat only the tuning runs,
            and write their outcomes to the policies, for drift detection. To
            detect smaller changes, increase the number of runs with --episodes.
        runs: Keep the runs in this folder, with a subfolder for each scenario, so that
            the command does not repeat them when it is started again.
        law: Law to train for instead of the scenarios' laws: a name or a formula; may
            be repeated. The predicates of the scenarios must determine whether its
            conditions are true.
        out: Folder for NAME.model.json.gz and NAME.policy.yaml.
    """
    from forewarn.monitors.risk.evidence import refuse_undecided
    from forewarn.scenarios.measuring.recorded import (
        shipped_runs,
    )
    from forewarn.scenarios.running.pools import (
        in_turn,
    )
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.training.train import (
        add_ordinary,
        collected,
        ordinary_seeds,
    )

    pool = working.pool()
    with ExitStack() as stack:
        base = runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        todo: list[_Lesson] = []
        loaded = [load_scenario(name) for name in scenarios]
        if law:
            loaded = [each.under(law) for each in loaded]
            for each in loaded:
                refuse_undecided(each.abstraction, each.laws)
        for wanted in loaded:
            kept: Kept | None = None
            wished: Sequence[int] = range(seed, seed + (episodes or EPISODES))
            if ordinary:
                wished = ordinary_seeds(out, wanted, episodes or 0)
            elif rerun:
                with naming("--rerun"):
                    wished, kept = shipped_runs(wanted)
            folder = base / wanted.name
            paths = collected(wanted, wished, pool, folder, counted, kept)
            todo.append(_Lesson(wanted, paths, out))
        if ordinary:
            files = [
                str(add_ordinary(each.out, each.scenario, each.runs)) for each in todo
            ]
            say({"policies": files}, [f"{each}: outcomes written" for each in files])
            return
        if len(todo) == 1:
            found = [_trained(todo[0], progress)]
        else:
            learnt = in_turn(_trained, todo, pool)
            found = list(progress(learnt, "scenarios trained", len(todo)))
    facts = [each.facts for each in found]
    promises = [line for each in found for line in each.promises]
    broken = any(each.broken for each in found)
    say({"trained": facts}, [*_lines(facts), "", *promises], found=broken)


@dataclass(frozen=True, slots=True)
class _Lesson:
    """A scenario with its runs and its output folder."""

    scenario: Scenario
    runs: Sequence[Stored]
    out: Path


@dataclass(frozen=True, slots=True)
class _Learned:
    """The result of training: figures, guarantees, and whether a law has no
    threshold.
    """

    facts: dict[str, Any]
    promises: list[str]
    broken: bool


def _trained(lesson: _Lesson, shown: Shown = lambda items, *_: items) -> _Learned:
    """Trains on the runs of a scenario and writes the model and the policy."""
    from forewarn.scenarios.training.train import train

    wanted = lesson.scenario
    trained = train(wanted, lesson.runs, shown)
    files = trained.write(lesson.out, wanted.name)
    facts = {
        "scenario": wanted.name,
        "model": str(files.model),
        "policy": None if trained.policy is None else str(files.policy),
        "episodes": len(lesson.runs),
        **_told(trained),
        **trained.settled.as_dict(),
    }
    promises = [f"{wanted.name}:", *promised(trained.settled)]
    return _Learned(facts, promises, bool(trained.settled.without))


def _told(trained: Trained) -> dict[str, Any]:
    """Returns the facts about the model, or about each of several models."""
    found = [
        {
            "laws": [law.name for law in each.laws],
            "states": model.chain.n,
            "abstraction": each.choice.as_dict(),
        }
        for model, each in zip(trained.models, trained.chosen, strict=True)
    ]
    if len(found) > 1:
        return {"models": found, "states": sum(m.chain.n for m in trained.models)}
    return {name: found[0][name] for name in ("states", "abstraction")}


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    from forewarn.scenarios.measuring.shown import BRIEFLY, early, statistics

    rows = [
        (each["scenario"], tried["kind"], tried["name"], shown(law), f"{skill:.3f}")
        for each in found
        for model in each.get("models", [each])
        for tried in model["abstraction"]["tried"]
        for law, skill in tried["skill"].items()
    ]
    yield (
        "Skill of each method for finding predicates, on held-out runs (1: perfect; 0:"
    )
    yield "no better than the base rate). Each scenario uses its best method:"
    yield from table(["scenario", "method", "name", "law", "skill"], rows)
    yield ""
    fared = [{**each, **law} for each in found for law in each["laws"]]
    columns = ("scenario", "law", "states", "horizon", *BRIEFLY, "in time")
    yield from printed([statistics(columns, fared)])
    yield from early(fared)
    yield (
        'This table counts only runs not used for learning. "In time" means '
        "before the trigger or, if the trigger is mostly harmless, 3 s before the "
        "deadline."
    )
