"""`forewarn run`: episodes of a scenario, guarded or not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.options.judging import Judging, judging_options
from forewarn.cli.options.live import LINE, live_option, watched_live
from forewarn.cli.options.models import accept_option, model_option, tally_option
from forewarn.cli.options.policies import (
    chosen_policy,
    horizon_option,
    intervene_option,
    policy_option,
    tell_gaps,
    when_option,
)
from forewarn.cli.options.telling import Telling, telling_options
from forewarn.cli.runs.episodes import (
    again_option,
    counted,
    driven_by,
    failure_lines,
    jobs_option,
    on_option,
    pilot_option,
    purpose_option,
    refuse_total_failure,
    scenario_named,
    seeds,
    settings_option,
    shown,
    unless_given,
    world_option,
)
from forewarn.cli.support import (
    FILE,
    FOLDER,
    Count,
    Number,
    emit,
    json_option,
    numbers,
    seed_option,
    table,
)

if TYPE_CHECKING:
    from forewarn.monitors.guarding.policy import When
    from forewarn.scenarios.running.campaign import Kept
    from forewarn.scenarios.running.episode import Episode
    from forewarn.scenarios.schema import Scenario

SHOWN_EPISODES = 20


@click.command()
@click.argument("scenario")
@model_option()
@accept_option
@policy_option
@purpose_option
@click.option(
    "--threshold",
    "thresholds",
    callback=numbers(most=1),
    default="",
    metavar="RISK[,RISK…]",
    help="The risk from which on the guard intervenes: one for each of --intervene.",
)
@horizon_option
@intervene_option
@when_option
@click.option(
    "--unguarded", is_flag=True, help="Run without a guard, even if a model ships."
)
@click.option(
    "--no-model",
    "alone",
    is_flag=True,
    help="Let rules and guard programs judge alone, even if a model ships.",
)
@click.option(
    "--shadow", is_flag=True, help="Decide and record everything, enforce nothing."
)
@judging_options
@click.option(
    "--episodes",
    type=Count(min=1),
    default=1,
    show_default=True,
    help="How many; each has the next seed.",
)
@seed_option
@world_option
@pilot_option
@settings_option
@jobs_option
@on_option
@click.option(
    "--out",
    type=FOLDER,
    default=Path("forewarn-runs"),
    show_default=True,
    help="Where the run records go.",
)
@again_option
@click.option(
    "--scene/--no-scene",
    default=True,
    help="Whether to keep what there is to see, for `forewarn report`.",
)
@tally_option
@click.option(
    "--metrics", type=FILE, help="Counts for Prometheus, kept up to date in this file."
)
@live_option
@click.option(
    "--pace",
    type=Number(min=0.0),
    help="How many seconds of a simulated world pass in one of ours, 0: as many as can;"
    " by default 1 for one episode on a live page, else 0.",
)
@telling_options
@json_option
def run(
    scenario: str,
    model: Path | None,
    accept: bool,
    policy_path: Path | None,
    purpose: str,
    thresholds: tuple[float, ...],
    horizon: float | None,
    intervene: str | None,
    when: When | None,
    unguarded: bool,
    alone: bool,
    shadow: bool,
    judging: Judging,
    episodes: int,
    seed: int,
    world: str | None,
    pilot: str | None,
    settings: tuple[str, ...],
    jobs: int,
    on: str | None,
    out: Path,
    again: bool,
    scene: bool,
    tally: Path | None,
    metrics: Path | None,
    live: str | None,
    pace: float | None,
    telling: Telling,
    as_json: bool,
) -> None:
    """Run episodes of SCENARIO, guarded if there is a model.

    SCENARIO is a name that `forewarn scenarios` lists, or a file. Without --model it is
    guarded by the model that ships with it, if one does; a run without any says so and
    ends with status 1 unless --unguarded asked for it. Rules and guard programs, those
    that the scenario names too, judge beside the model, or alone without one. Each
    guarded episode leaves a run record, which `forewarn replay` derives again and
    `forewarn verify` checks. A campaign that was stopped goes on where it was when the
    command is given again.

    \b
    Examples:
      forewarn run s3 --intervene stop --episodes 20
      forewarn run tiny-road --model model.json
      forewarn run tiny-road --model model.json --intervene alert,stop \\
        --threshold 0.3,0.6 --episodes 100 --jobs 2
      forewarn run s1 --pilot driving-llm --set model=ollama:llama3.1 \\
        --intervene reflect
    """
    from forewarn.plugins.loop.approval import Console
    from forewarn.plugins.telemetry import PrometheusFile
    from forewarn.scenarios.running import campaign
    from forewarn.scenarios.running.episode import by_seed
    from forewarn.scenarios.running.plan import plan, without_risk

    wanted = driven_by(scenario_named(scenario, world), pilot, settings)
    names = [law.name for law in wanted.laws]
    policy, said = None, ""
    if unguarded or alone:
        if model is not None or (unguarded and alone):
            raise click.UsageError("give one of --model, --no-model and --unguarded")
    else:
        model, policy_path, said = unless_given(
            wanted, model, policy_path, accept, purpose
        )
    judged = judging or (wanted.judges and not unguarded)
    if alone and not judged:
        raise click.UsageError("--no-model is for --rules or --guard-program")
    if unguarded and judged:
        raise click.UsageError("--unguarded takes no rules and no guard program")
    if model is None and judged:
        if policy_path or thresholds or horizon or when:
            raise click.UsageError(
                "without --model there is no risk to be held to that"
            )
        model, said = without_risk(wanted, out), _ALONE
        policy = chosen_policy(None, None, wanted.horizon_s, intervene, ())
        policy = replace(policy, shadow=policy.shadow or shadow)
    elif model is not None:
        policy = chosen_policy(
            policy_path, horizon, wanted.horizon_s, intervene, thresholds, when,
            wanted.laws,
        )  # fmt: skip
        policy = replace(policy, shadow=policy.shadow or shadow)
        tell_gaps(policy, policy_path, names)
    elif policy_path or thresholds or horizon or shadow or intervene or when or tally:
        raise click.UsageError(
            "there is no guard to be told anything (give its model by --model)"
        )
    judges = judging.judges(policy is not None and policy.shadow)
    listeners = telling.listeners()
    # Nobody can answer several questions at once.
    person = Console if jobs == 1 and sys.stdin.isatty() else None
    keep: list[Kept] = [] if model is None else ["record"]
    keep += ["scene"] if keep and scene else []
    keep += ["tally"] if tally is not None else []
    if live and model is None:
        raise click.UsageError(
            "--live shows a guard, and there is none without a model"
        )
    if pace is None:
        pace = 1.0 if live not in (None, LINE) and episodes == 1 else 0.0
    if live is None and episodes == 1:
        live = LINE
    counts = PrometheusFile(metrics) if metrics is not None else None
    found: list[Episode] = []
    with watched_live(live) as audience:
        todo = campaign.jobs(
            plan(
                wanted, model, policy, [*listeners, *audience], person, judges, pace
            ),
            wanted,
            seeds(seed, episodes),
            out,
            keep,
        )  # fmt: skip
        running = campaign.campaign(todo, campaign.pool(jobs, on), again)
        for episode in counted(running, "episodes", episodes):
            found.append(episode)
            if counts is not None:
                counts.add(wanted.name, episode.as_dict())
    if counts is not None:
        counts.write()
    refuse_total_failure(found)
    found = [episode.within(out) for episode in by_seed(found)]
    if tally is not None:
        _write_tally(tally, found, again)
    payload = {
        "scenario": wanted.name,
        "model": None if model is None else str(model),
        "episodes": [episode.as_dict() for episode in found],
        "failed": sum(episode.failed for episode in found),
        "unguarded": model is None,
        "policy": None if policy is None else policy.as_dict(),
        "without_rule": [] if policy is None else list(policy.without_rule(names)),
    }
    if model is None:
        said = _UNGUARDED if unguarded else f"{_UNGUARDED} {_ASK}"
    emit(as_json, payload, _lines(wanted, found, out, said))
    if model is None and not unguarded:
        # What nobody asked for is found out, and no success.
        click.get_current_context().exit(1)


def _write_tally(path: Path, episodes: Sequence[Episode], again: bool) -> None:
    """Puts together what the guards of all episodes counted."""
    from forewarn.monitors.fleet.tallies import (
        read_tallies,
        summed_by_subject,
        write_tallies,
    )

    files = [Path(each.tally) for each in episodes if each.tally]
    if not files:
        return
    total = summed_by_subject(each for file in files for each in read_tallies(file))
    if path.exists() and not again and read_tallies(path)[0].id != total[0].id:
        raise click.UsageError(
            f"{path} is the tally of other runs: merge it, and take it away"
        )
    write_tallies(path, total)


_ALONE = "Guarded by rules alone: no model tells of a risk."
_UNGUARDED = "UNGUARDED: there is no model, and nothing was judged."
_ASK = "Give --model, or say --unguarded."


def _lines(
    scenario: Scenario, episodes: Sequence[Episode], out: Path, said: str
) -> Iterator[str]:
    drifted = [episode for episode in episodes if episode.drift]
    if drifted:
        yield (
            f"In {len(drifted)} of {len(episodes)} episodes the world contradicts the"
            f" model; seed {drifted[0].seed}: {drifted[0].drift}"
        )
    if said:
        yield said
    yield from failure_lines(episodes, out)
    if len(episodes) == 1:
        yield from _story(episodes[0])
        return
    rows = [_row(episode) for episode in episodes[:SHOWN_EPISODES]]
    head = ["seed", "lasted", "broken", "first alarm", "done", "ended"]
    yield from table(head, rows)
    if len(episodes) > SHOWN_EPISODES:
        yield f"… and {len(episodes) - SHOWN_EPISODES} more; --json lists all."
    yield ""
    good = [episode for episode in episodes if not episode.failed]
    yield from table(
        ["law", "broken in", "of"],
        (
            (
                shown(law.name),
                sum(episode.first(law.name) is not None for episode in good),
                len(good),
            )
            for law in scenario.laws
        ),
    )
    if any(episode.record for episode in episodes):
        yield f"The run records are in {out}; `forewarn report {out}` shows them."


def _row(episode: Episode) -> tuple[object, ...]:
    broken = ", ".join(f"{shown(b.law)} {b.time_s:g} s" for b in episode.violations)
    alarm = episode.alarms[0] if episode.alarms else None
    kinds = dict.fromkeys(each.kind for each in episode.interventions)
    return (
        episode.seed,
        f"{episode.duration_s:.1f} s",
        broken or "-",
        f"{alarm.time_s:g} s" if alarm else "-",
        ", ".join(kinds) or "-",
        episode.error or episode.ended,
    )


def _story(episode: Episode) -> Iterator[str]:
    """One episode, told in the order of its events."""
    events: list[tuple[float, str]] = [
        (each.time_s, f"{each.law} was broken") for each in episode.violations
    ]
    for alarm in episode.alarms:
        risk = "" if alarm.risk is None else f" at risk {alarm.risk.point:.2f}"
        law = alarm.law or "the guard cannot judge"
        events.append((alarm.time_s, f"{alarm.decision}: {law}{risk}"))
    for each in episode.interventions:
        obeyed = "" if each.obeyed_s is None else f", obeyed at {each.obeyed_s:g} s"
        until = f"done: {each.kind} until {each.until_s:g} s{obeyed}"
        events.append((each.time_s, until))
    for time_s, text in sorted(events, key=lambda event: event[0]):
        yield f"{time_s:7.1f} s  {text}"
    yield f"{episode.duration_s:7.1f} s  {episode.error or episode.ended}"
    if episode.record:
        yield f"The run record: {episode.record}; `forewarn report` shows it."
