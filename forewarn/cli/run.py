"""`forewarn run`: runs a scenario, guarded or not."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import click

from forewarn.cli.command import (
    File,
    Folder,
    Formerly,
    Many,
    NotNegative,
    Numbers,
    Seed,
    Share,
    command,
    given_options,
)
from forewarn.cli.episodes import (
    counted,
    failure_lines,
)
from forewarn.cli.groups import (
    Driven,
    Judging,
    Telling,
    Warned,
    Working,
    chosen_policy,
    tell_gaps,
)
from forewarn.cli.live import (
    LINE,
    Showing,
    show_drift,
    watched_live,
)
from forewarn.cli.printing import (
    note,
    say,
    shown,
    table,
)

if TYPE_CHECKING:
    from forewarn.monitors.guarding.drift import Drift
    from forewarn.monitors.guarding.policy import Policy
    from forewarn.scenarios.running.episode import Episode
    from forewarn.scenarios.schema import Scenario


SHOWN_EPISODES = 20
_OF_GUARDS = (
    "policy", "preset", "horizon", "intervene", "threshold", "when", "shadow", "tally",
    "let_pass", "log", "webhook", "accept_model",
)  # fmt: skip
"""The options that configure a guard."""


@dataclass(frozen=True, slots=True)
class Guided(Warned):
    """The guard and its interventions.

    Args:
        threshold: Threshold of each intervention in --intervene, separated by commas
            (not with --intervene none).
        when: before: evaluate the predicted result of an action before it is executed
            (if the world can predict it); after: evaluate the observed state
            afterwards; both: evaluate both (default: as the policy says).
        unguarded: Run without a guard, even if there is a shipped model (not with
            --model or --no-model).
        no_model: Use only rules and guard programs, even if there is a shipped model
            (not with --model or --preset).
        shadow: Decide and record, but enforce nothing.
        tally: Write a tally for `forewarn merge-tallies` to this file: the counts of
            transitions, except during interventions. Gzipped if the name ends in .gz.
        let_pass: Fraction of the runs, chosen by seed, in which the guard does not
            intervene. The tally weights these runs more, to make up for the
            runs that an intervention cut short. Rejected for severe laws.
    """

    threshold: Annotated[tuple[float, ...], Numbers(1), "RISK[,RISK…]"] = ()
    when: Literal["before", "after", "both"] | None = None
    unguarded: bool = False
    no_model: bool = False
    shadow: bool = False
    tally: File | None = None
    let_pass: Share = 0.0

    def guard(
        self, scenario: Scenario, judging: Judging, out: Path
    ) -> tuple[Path | None, Policy | None, str]:
        """Returns the model, the policy, and a message about them."""
        from forewarn.scenarios.running.plan import without_risk

        given = given_options()
        for name in _OF_GUARDS if self.unguarded else ():
            if name in given:
                raise click.UsageError(
                    f"--unguarded cannot be combined with {given[name]}, which "
                    "configures the guard (leave out one of them)"
                )
        judged = judging or (scenario.judges and not self.unguarded)
        if self.no_model and not judged:
            raise click.UsageError("--no-model requires --rules or --guard-program")
        if self.unguarded and judged:
            raise click.UsageError(
                "--unguarded cannot be combined with rules or guard programs"
            )
        model, path, said = None, self.policy, ""
        if not (self.unguarded or self.no_model):
            model, path, said = self.files(scenario)
        risky = bool(path or self.threshold or self.horizon or self.when)
        horizon_s, intervene, shadow = scenario.horizon_s, self.intervene, self.shadow
        if model is not None:
            policy = chosen_policy(
                path, self.horizon, horizon_s, intervene, self.threshold, self.when,
                scenario.laws, shadow, model,
            )  # fmt: skip
            tell_gaps(policy, path, scenario)
            return model, policy, said
        if judged:
            if risky:
                raise click.UsageError(
                    "--policy, --threshold, --horizon and --when need a model to "
                    "compute the risk: give --model"
                )
            model = without_risk(scenario, out)
            policy = chosen_policy(None, None, horizon_s, intervene, shadow=shadow)
            return (
                model,
                policy,
                "Guarded by rules alone: without a model there is no risk estimate.",
            )
        if risky or shadow or intervene or self.tally or self.let_pass:
            raise click.UsageError(
                "there is no guard to configure (give a model with --model)"
            )
        said = "UNGUARDED: there is no model, and nothing was judged."
        asks = "" if self.unguarded else " Give --model, or add --unguarded."
        return None, None, said + asks


@dataclass(frozen=True, slots=True)
class Kept:
    """Output files.

    Args:
        out: Folder for run records.
        rerun: Repeat runs even if their records are already in the folder.
        scene: Whether to record scenes for the animations of `forewarn report`.
    """

    out: Folder = Path("forewarn-runs")
    rerun: Annotated[bool, Formerly("--again")] = False
    scene: bool = True


@command()
def run(
    scenario: str,
    /,
    *,
    guided: Guided,
    judging: Judging,
    episodes: Many = 1,
    seed: Seed = 0,
    driven: Driven,
    working: Working,
    kept: Kept,
    showing: Showing,
    pace: NotNegative | None = None,
    telling: Telling,
) -> None:
    """Run SCENARIO one or more times, guarded if there is a model.

    SCENARIO is a name that `forewarn scenarios` lists, or a file. Without --model, the
    guard uses the shipped model, if there is one. If there is no model, the output says
    so, and the exit status is 1 unless --unguarded is given. Rules and guard programs,
    including those of the scenario, are applied in addition to the model, or alone
    without one. Each guarded run writes a run record, which `forewarn replay`
    recomputes and `forewarn verify` checks. After an interruption, run the same command
    again to continue.

    \b
    Examples:
      forewarn run s3 --intervene stop --episodes 20
      forewarn run tiny-road --model model.json
      forewarn run tiny-road --model model.json --intervene alert,stop \\
        --threshold 0.3,0.6 --episodes 100 --jobs 2
      forewarn run s1 --pilot driving-llm --set model=ollama:llama3.1 \\
        --intervene reflect

    Args:
        episodes: Number of runs, with consecutive seeds.
        seed: Seed of the first run.
        pace: Speed of a simulated world relative to real time; 0: as fast as possible
            (default: 1 for a single run on a live page, else 0).
    """
    from forewarn.plugins.loop.approval import Console
    from forewarn.plugins.loop.warrant import Warrant
    from forewarn.scenarios.measuring.measure import drift_of
    from forewarn.scenarios.measuring.pairs import outcomes, standing
    from forewarn.scenarios.running import campaign
    from forewarn.scenarios.running.episode import by_seed
    from forewarn.scenarios.running.plan import plan
    from forewarn.scenarios.running.sampling import refuse_total_failure

    wanted = driven.scenario(scenario)
    model, policy, said = guided.guard(wanted, judging, kept.out)
    if model is not None and episodes > 1:
        _tell_trained(model, wanted, seed, episodes)
    listeners = telling.listeners()
    if guided.let_pass and policy is not None:
        campaign.refuse_severe(wanted.laws, policy)
    judges = judging.judges(policy is not None and policy.shadow)
    live = showing.live
    if live and model is None:
        raise click.UsageError(
            "--live shows a guard, and this run has none (give a model with --model)"
        )
    if pace is None:
        pace = 1.0 if live not in (None, LINE) and episodes == 1 else 0.0
    keep: list[campaign.Kept] = [] if model is None else ["record"]
    keep += ["scene"] if keep and kept.scene else []
    tallied: list[campaign.Kept] = ["tally"] if guided.tally is not None else []
    found: list[Episode] = []
    so_far: Drift | None = None
    with watched_live(live or (LINE if episodes == 1 else None)) as audience:
        planned = plan(
            wanted,
            model,
            policy,
            [*listeners, *audience],
            # One person cannot answer several processes at the same time.
            Console if working.jobs == 1 and sys.stdin.isatty() else None,
            judges,
            pace,
        )
        seeds = range(seed, seed + episodes)
        passed = campaign.let_pass(seeds, guided.let_pass)
        stopped = [each for each in seeds if each not in passed]
        keep += tallied
        todo = campaign.jobs(planned.watching(), wanted, passed, kept.out, keep)
        acting = campaign.jobs(planned, wanted, stopped, kept.out, keep)
        todo += acting
        running = campaign.campaign(todo, working.pool(), kept.rerun)
        for episode in counted(running, "episodes", episodes):
            found.append(episode)
            if live == "web" and policy is not None:
                so_far = drift_of(policy, [episode], so_far)
                show_drift(audience, so_far)
    refuse_total_failure(found)
    found = [episode.within(kept.out) for episode in by_seed(found)]
    if guided.tally is not None:
        _write_tally(guided.tally, found, kept.rerun)
    drift = None if policy is None else drift_of(policy, found)
    guarantee = None
    if model is not None and policy is not None and policy.kept and acting:
        # The runs of earlier commands in the same folder count too.
        guarded = campaign.finished(acting[0])
        guarantee = standing(policy, wanted, model, guarded, (), bool(judges))
    if guarantee is not None:
        said = " ".join(filter(None, (said, guarantee.sentence())))
    names = [law.name for law in wanted.laws]
    payload = {
        "scenario": wanted.name,
        "model": None if model is None else str(model),
        "episodes": [episode.as_dict() for episode in found],
        "failed": sum(episode.failed for episode in found),
        "outcomes": outcomes(
            [each for each in found if not each.failed], wanted.goal is not None
        ),
        "unguarded": model is None,
        "policy": None if policy is None else policy.as_dict(),
        "without_rule": [] if policy is None else list(policy.without_rule(names)),
        "drift": None if drift is None else drift.as_dict(),
        "guarantee": None if guarantee is None else guarantee.as_dict(),
    }
    warrant = None if model is None else Warrant.beside(model)
    revoked = ""
    if warrant is not None and policy and warrant.certificate.covers(policy):
        payload["certificate"] = warrant.told()
        revoked = warrant.revoked()
    if revoked:
        said = f"The certificate is revoked: {revoked}."
    # Running without a guard is an error unless --unguarded was given.
    say(
        payload,
        _lines(wanted, found, kept.out, said, drift),
        found=revoked or (model is None and not guided.unguarded),
    )


def _write_tally(path: Path, episodes: Sequence[Episode], again: bool) -> None:
    """Writes the sum of the tallies of all runs."""
    from forewarn.monitors.fleet.files import read_tallies, write_tallies
    from forewarn.monitors.fleet.tallies import summed_by_subject

    files = [Path(each.tally) for each in episodes if each.tally]
    if not files:
        return
    total = summed_by_subject(each for file in files for each in read_tallies(file))
    if path.exists() and not again and read_tallies(path)[0].id != total[0].id:
        raise click.UsageError(
            f"{path} is the tally of other runs: merge it into a model and move "
            "it away, or write to a different file"
        )
    write_tallies(path, total)


def _lines(
    scenario: Scenario,
    episodes: Sequence[Episode],
    out: Path,
    said: str,
    drift: Drift | None,
) -> Iterator[str]:
    from forewarn.scenarios.measuring.pairs import ended
    from forewarn.scenarios.measuring.shown import EPISODES
    from forewarn.scenarios.measuring.shown import table as columns

    if said:
        yield said
    yield from failure_lines(episodes, out)
    if len(episodes) == 1:
        yield from _story(episodes[0])
        return
    runs = columns(EPISODES, episodes)
    yield from table(runs.head, runs.rows, most=SHOWN_EPISODES)
    yield ""
    good = [episode for episode in episodes if not episode.failed]
    yield from table(
        ["law", "violations", "of"],
        (
            (
                shown(law.name),
                sum(episode.first(law.name) is not None for episode in good),
                len(good),
            )
            for law in scenario.laws
        ),
    )
    yield from ended(good, scenario.goal is not None)
    if drift is not None:
        yield from drift.sentences()
    if any(episode.record for episode in episodes):
        yield f"The run records are in {out}; `forewarn report {out}` shows them."


def _tell_trained(model: Path, scenario: Scenario, seed: int, episodes: int) -> None:
    """Notes that the model was learned from some of these runs."""
    from forewarn.monitors.chains.model import load_models
    from forewarn.scenarios.measuring.seeds import trained_seeds
    from forewarn.scenarios.running.campaign import recorded_files

    names = recorded_files(scenario)
    known = [trained_seeds(each, scenario.name, names) for each in load_models(model)]
    trained = set[int]().union(*known)
    if both := trained.intersection(range(seed, seed + episodes)):
        note(
            f"the model was learned from {len(both)} of these {episodes} runs, so "
            "their results do not carry over to new runs "
            f"(give --seed {max(trained) + 1} or higher)"
        )


def _story(episode: Episode) -> Iterator[str]:
    """Yields the events of a run in chronological order."""
    events: list[tuple[float, str]] = [
        (each.time_s, f"{each.law} was broken") for each in episode.violations
    ]
    for alarm in episode.alarms:
        risk = "" if alarm.risk is None else f" at risk {alarm.risk.point:.2f}"
        law = alarm.law or "the guard cannot judge"
        events.append((alarm.time_s, f"{alarm.decision}: {law}{risk}"))
    for each in episode.interventions:
        obeyed = "" if each.obeyed_s is None else f", obeyed at {each.obeyed_s:g} s"
        until = f"carried out: {each.kind} until {each.until_s:g} s{obeyed}"
        events.append((each.time_s, until))
    for time_s, text in sorted(events, key=lambda event: event[0]):
        yield f"{time_s:7.1f} s  {text}"
    yield f"{episode.duration_s:7.1f} s  {episode.error or episode.ended}"
    if episode.record:
        yield f"Run record: {episode.record}; `forewarn report` shows it."
