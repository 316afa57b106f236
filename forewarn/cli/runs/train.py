"""`forewarn train`: a scenario's model and policy, from nothing, in one go."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.runs.episodes import counted, jobs_option, on_option, seeds, shown
from forewarn.cli.runs.tune import promised
from forewarn.cli.support import (
    FOLDER,
    Count,
    emit,
    json_option,
    progress,
    seed_option,
    table,
)

if TYPE_CHECKING:
    from forewarn.scenarios.running.campaign import Kept
    from forewarn.scenarios.schema import Scenario
    from forewarn.scenarios.training.train import Trained


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
    once. It learns from one share of the runs, calibrates by another, and sets a third
    aside for the thresholds and what they promise; where no threshold keeps the
    promise no policy is written, and the exit status is 1. What ships with the
    scenarios was made by it, and comes out again, byte for byte, with --again.

    \b
    Examples:
      forewarn train s3 --again --out trained
      forewarn train tiny-road --episodes 200 --out trained
      forewarn run tiny-road --model trained/tiny-road.model.json.gz \\
        --policy trained/tiny-road.policy.yaml
    """
    from forewarn.scenarios.running.campaign import pool
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.training import train as training

    found: list[dict[str, Any]] = []
    promises: list[str] = []
    broken = False
    for wanted in [load_scenario(name) for name in scenarios]:
        with ExitStack() as stack:
            base = runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            folder = base / wanted.name
            kept: Kept | None = None
            wished: Sequence[int] = seeds(seed, episodes)
            if again:
                wished, kept = _shipped(wanted)
            paths = training.collected(
                wanted, wished, pool(jobs, on), folder, counted, kept
            )
            trained = training.train(wanted, paths, progress)
        files = trained.write(out, wanted.name)
        found.append(
            {
                "scenario": wanted.name,
                "model": str(files.model),
                "policy": None if trained.policy is None else str(files.policy),
                "episodes": len(paths),
                **_told(trained),
                **trained.settled.as_dict(),
            }
        )
        promises.append(f"{wanted.name}:")
        promises += promised(trained.settled)
        broken |= bool(trained.settled.without)
    emit(as_json, {"trained": found}, [*_lines(found), "", *promises])
    if broken:
        ctx.exit(1)


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
    from forewarn.scenarios.shipped import shipped_with
    from forewarn.scenarios.training.runs import kept_then

    files = shipped_with(scenario)
    if files is None:
        raise click.UsageError(f"--again: no model ships with {scenario.name}")
    model = load_models(files.model)[0]  # all are learned from the same runs
    kept = kept_then(model.training.get("files", ()))
    return sorted(trained_seeds(model, scenario.name)), kept


def _lines(found: list[dict[str, Any]]) -> Iterator[str]:
    from forewarn.scenarios.measuring.warning_times import warned_early

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
            _time(law["awt_trigger_s"]["mean"]),
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


def _time(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s:.1f} s"
