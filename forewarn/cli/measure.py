"""`forewarn measure`: what a model's warnings are worth on held-out runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.episodes import (
    FOLDER,
    chosen_policy,
    counted,
    failure_lines,
    horizon_option,
    intervene_option,
    jobs_option,
    model_option,
    numbers,
    policy_option,
    seeds,
    shown,
)
from forewarn.cli.support import emit, json_option, progress, table

if TYPE_CHECKING:
    from forewarn.scenarios.measure import Measurement, Watched, Wish

FIRST_SEED = 1_000_000


@click.command()
@click.argument("scenario")
@model_option(required=True)
@policy_option
@click.option(
    "--thresholds",
    callback=numbers(most=1),
    default="",
    metavar="RISK,RISK,…",
    help="What to compare; by default the policy's thresholds.",
)
@horizon_option
@intervene_option
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many; each has the next seed.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=FIRST_SEED,
    show_default=True,
    help="The first seed: far from those that collect begins with.",
)
@jobs_option
@click.option(
    "--runs",
    type=FOLDER,
    help="Judge the traces and run records in this folder, instead of new episodes.",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="NAME",
    help="Another method to be judged beside the guard; may be given again.",
)
@click.option(
    "--guarded/--no-guarded",
    default=True,
    help="Whether to run the same seeds again with the guard acting.",
)
@click.option(
    "--out", type=FOLDER, help="Keep the episodes here, to go on or to measure again."
)
@click.option(
    "--allow-training-seeds",
    is_flag=True,
    help="Accept runs that the model was learned from. Its figures flatter it then.",
)
@json_option
def measure(
    scenario: str,
    model: Path,
    policy_path: Path | None,
    thresholds: tuple[float, ...],
    horizon: float | None,
    intervene: str | None,
    episodes: int,
    seed: int,
    jobs: int,
    runs: Path | None,
    baselines: tuple[str, ...],
    guarded: bool,
    out: Path | None,
    allow_training_seeds: bool,
    as_json: bool,
) -> None:
    """Judge the warnings of a model on episodes of SCENARIO that it does not know.

    Detected is a violation whose first alarm came strictly before its trigger, the
    moment at which the obligation arose (for an invariant: before the violation). The
    advance warning times are over detected violations, to the violation and to the
    trigger; the false-alarm rate is the share of clean runs with any alarm.

    \b
    Example:
      forewarn measure tiny-road --model model.json --episodes 200 --jobs 2 \\
        --thresholds 0.3,0.5,0.7 --baseline deadline
    """
    from forewarn.monitors.chains.model import load_model
    from forewarn.scenarios import campaign
    from forewarn.scenarios.measure import Wish, refuse_trained
    from forewarn.scenarios.measure import measure as measured
    from forewarn.scenarios.schema import load_scenario

    wanted = load_scenario(scenario)
    policy = chosen_policy(policy_path, horizon, wanted.horizon_s, intervene, ())
    wish = Wish(
        wanted,
        model,
        replace(policy, shadow=False),
        seeds(seed, episodes),
        thresholds,
        baselines,
        guarded and not policy.shadow,
    )
    if runs is not None:
        found = _on_file(wish, runs, allow_training_seeds)
    else:
        if not allow_training_seeds:
            refuse_trained(load_model(model), wanted.name, wish.seeds)
        with ExitStack() as stack:
            folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            found = measured(wish, campaign.pool(jobs), folder, counted)
    emit(as_json, found.as_dict(), _lines(found, out))


def _on_file(wish: Wish, folder: Path, allow_training_seeds: bool) -> Measurement:
    from forewarn.monitors.chains.model import load_model
    from forewarn.scenarios.measure import Watched, judge_runs, refuse_trained
    from forewarn.scenarios.plan import guard_maker
    from forewarn.scenarios.recorded import Spectator, look_at_all, recorded_runs

    model = load_model(wish.model)
    policy = replace(wish.policy, shadow=True)
    make = guard_maker(wish.scenario, model, policy, str(wish.model))
    spectator = Spectator(make, policy, wish.scenario.laws, wish.baselines)
    paths = recorded_runs(folder)
    looked = progress(look_at_all(paths, spectator), "runs", len(paths))
    watched: list[Watched] = [Watched(episode, series) for episode, series in looked]
    if not allow_training_seeds:
        held = [each.episode.seed for each in watched]
        refuse_trained(model, wish.scenario.name, held)
    return judge_runs(replace(wish, guarded=False), watched)


# -- for people -----------------------------------------------------------------------


def _lines(found: Measurement, out: Path | None) -> Iterator[str]:
    if found.drift is not None and (note := found.drift.note()):
        yield f"Take care: {note}"
    yield from failure_lines(found.episodes, out)
    facts = found.as_dict()
    yield (
        f"{found.scenario}: {facts['episodes'] - facts['failed']} runs, horizon"
        f" {found.horizon_s:g} s. A share has its 95 % interval."
    )
    yield from _table([row.as_dict() for row in found.rows])
    yield ""
    for row in facts["laws"]:
        if row["brier"] is not None and row["law"] not in _told(facts["laws"], row):
            yield (
                f"{shown(row['law'])}: broken in {_share(row, 'base_rate')} of the"
                f" runs; risk at the start {row['initial_risk']:.3f}; Brier score"
                f" {row['brier']:.4f}, of the base rate"
                f" {row['brier_of_base_rate']:.4f}"
            )
    if facts["unknown"]:
        share = facts["unknown"] / facts["frames"]
        yield f"{share:.2%} of the frames were in states never seen in training."
    for name, baseline in facts["baselines"].items():
        yield ""
        yield f"Baseline {name}:"
        yield from _table(baseline["laws"])
        for law, why in baseline["skipped"].items():
            yield f"{shown(law)}: not judged, {why}"
    if facts["guarded"] is not None:
        yield ""
        yield from _guarded(facts["guarded"])


def _told(rows: Sequence[dict[str, Any]], row: dict[str, Any]) -> set[str]:
    """The laws of the rows before this one."""
    return {each["law"] for each in rows[: rows.index(row)]}


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    head = [
        "law", "threshold", "violations", "detected", "to trigger: mean", "median",
        "p10", "to violation: mean", "max", "clean", "false alarms",
    ]  # fmt: skip
    return table(
        head,
        (
            (
                shown(row["law"]),
                f"{row['threshold']:g}",
                row["violating"],
                _share(row, "detection_rate"),
                *(
                    _time(row["awt_trigger_s"][key])
                    for key in ("mean", "median", "p10")
                ),
                *(_time(row["awt_violation_s"][key]) for key in ("mean", "max")),
                row["clean"],
                _share(row, "false_alarm_rate"),
            )
            for row in rows
        ),
    )


def _share(row: dict[str, Any], key: str) -> str:
    if row[key] is None:
        return "-"
    low, high = row["intervals"][key]
    return f"{row[key]:.2f} ({low:.2f} to {high:.2f})"


def _time(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s:.1f} s"


def _guarded(facts: dict[str, Any]) -> Iterator[str]:
    yield f"With the guard acting, on the same {facts['pairs']} seeds:"
    yield from table(
        ["law", "broken without", "with", "cut by", "caused"],
        (
            (
                shown(law["law"]),
                law["violating_unguarded"],
                law["violating_guarded"],
                "-" if law["cut"] is None else f"{100 * law['cut']:.0f} %",
                law["caused"],
            )
            for law in facts["laws"]
        ),
    )
    done = ", ".join(f"{kind} in {n}" for kind, n in facts["episodes_with"].items())
    yield f"Interventions: {done or 'none'}."
    if facts["duration_ratio"] is not None:
        yield (
            "Runs that were clean both ways took"
            f" {facts['duration_ratio']:.2f} times as long ({facts['clean_pairs']}"
            " pairs)."
        )
    if facts["failed"]:
        yield f"{facts['failed']} of {facts['episodes']} guarded episodes failed."
