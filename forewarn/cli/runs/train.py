"""`forewarn train`: a scenario's model and policy, from nothing, in one go."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.runs.episodes import counted, jobs_option, on_option, seeds, shown
from forewarn.cli.runs.tune import promised
from forewarn.cli.support import (
    FOLDER,
    Count,
    emit,
    in_seconds,
    json_option,
    progress,
    seed_option,
    table,
)

if TYPE_CHECKING:
    from forewarn.abstractions.readers.stored import Stored
    from forewarn.scenarios.running.campaign import Kept
    from forewarn.scenarios.schema import Scenario
    from forewarn.scenarios.training.train import Shown, Trained


@click.command()
@click.argument("scenarios", nargs=-1, required=True, metavar="SCENARIO…")
@click.option(
    "--episodes",
    type=Count(min=10),
    default=1000,
    show_default=True,
    help="How many runs it learns from; each has the next seed.",
)
@seed_option
@click.option(
    "--again",
    is_flag=True,
    help="Train on the very runs that the shipped models were trained on: what ships"
    " comes out once more.",
)
@jobs_option
@on_option
@click.option(
    "--runs",
    type=FOLDER,
    help="Keep the runs in a folder a scenario below this one, to go on or to train"
    " again.",
)
@click.option(
    "--out",
    type=FOLDER,
    required=True,
    help="Where NAME.model.json.gz and NAME.policy.yaml go.",
)
@json_option
@click.pass_context
def train(
    ctx: click.Context,
    scenarios: tuple[str, ...],
    episodes: int,
    seed: int,
    again: bool,
    jobs: int,
    on: str | None,
    runs: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Collect runs of each SCENARIO, learn a model from them and tune its thresholds.

    It is `collect`, `learn --abstraction auto` and `tune` in one, and reads each run
    once; --jobs scenarios are trained at a time. It learns from one share of the runs,
    calibrates by another, and sets a third aside for the thresholds and what they
    promise; where no threshold keeps the promise no policy is written, and the exit
    status is 1. What ships with the scenarios was made by it, and comes out again, byte
    for byte, with --again.

    \b
    Examples:
      forewarn train s3 --again --out trained
      forewarn train tiny-road --episodes 200 --out trained
      forewarn run tiny-road --model trained/tiny-road.model.json.gz \\
        --policy trained/tiny-road.policy.yaml
    """
    from forewarn.scenarios.running.campaign import pool
    from forewarn.scenarios.running.pools import in_turn
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.training.train import collected

    where = pool(jobs, on)
    with ExitStack() as stack:
        base = runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        todo: list[_Lesson] = []
        for wanted in [load_scenario(name) for name in scenarios]:
            kept: Kept | None = None
            wished: Sequence[int] = seeds(seed, episodes)
            if again:
                wished, kept = _shipped(wanted)
            folder = base / wanted.name
            paths = collected(wanted, wished, where, folder, counted, kept)
            todo.append(_Lesson(wanted, paths, out))
        if len(todo) == 1:
            found = [_trained(todo[0], progress)]
        else:
            learnt = in_turn(_trained, todo, where)
            found = list(progress(learnt, "scenarios trained", len(todo)))
    facts = [each.facts for each in found]
    promises = [line for each in found for line in each.promises]
    emit(as_json, {"trained": facts}, [*_lines(facts), "", *promises])
    if any(each.broken for each in found):
        ctx.exit(1)


@dataclass(frozen=True, slots=True)
class _Lesson:
    """A scenario with its runs, and where what is learned from them goes."""

    scenario: Scenario
    runs: Sequence[Stored]
    out: Path


@dataclass(frozen=True, slots=True)
class _Learned:
    """What is told of it: facts, what is promised, and whether a law has nothing."""

    facts: dict[str, Any]
    promises: list[str]
    broken: bool


def _trained(lesson: _Lesson, shown: Shown = lambda items, *_: items) -> _Learned:
    """Trains on one scenario's runs, and writes what comes of it."""
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
    """The model, or each of several."""
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


def _shipped(scenario: Scenario) -> tuple[Sequence[int], Kept]:
    """The seeds of what ships, and how their runs were kept."""
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.measuring.measure import trained_seeds
    from forewarn.scenarios.measuring.recorded import kept_then
    from forewarn.scenarios.shipped import shipped_with

    files = shipped_with(scenario)
    if files is None:
        raise click.UsageError(f"--again: no model ships with {scenario.name}")
    model = load_models(files.model)[0]  # all are learned from the same runs
    kept = kept_then(model.training.get("files", ()))
    return sorted(trained_seeds(model, scenario.name)), kept


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    from forewarn.monitors.evaluation.warned import warned_early

    rows = [
        (each["scenario"], tried["kind"], tried["name"], shown(law), f"{skill:.3f}")
        for each in found
        for model in each.get("models", [each])
        for tried in model["abstraction"]["tried"]
        for law, skill in tried["skill"].items()
    ]
    yield "What each way to find predicates foretold in runs left out (1 is perfect,"
    yield "0 no better than the base rate); the best of each scenario was taken:"
    yield from table(["scenario", "way", "what", "law", "skill"], rows)
    yield ""
    fared = [
        (
            each["scenario"],
            shown(law["law"]),
            each["states"],
            f"{each['horizon_s']:g} s",
            f"{law['threshold']:g}",
            f"{law['detected']} of {law['violating']}",
            f"{law['warned_in_time']} of {law['violating']}",
            in_seconds(law["awt_trigger_s"]["mean"]),
            f"{law['false_alarms']} of {law['clean']}",
        )
        for each in found
        for law in each["laws"]
    ]
    head = [
        "scenario", "law", "states", "horizon", "threshold", "detected", "in time",
        "to trigger", "false alarms",
    ]  # fmt: skip
    yield from table(head, fared)
    for each in found:
        for law in each["laws"]:
            if words := warned_early(law, each["horizon_s"]):
                yield f"{each['scenario']}, {shown(law['law'])}: {words}."
    yield (
        "On the runs that were set aside. In time is before the trigger or, where that"
        " is mostly harmless, 3 s before the deadline."
    )
