"""`forewarn collect`: unguarded episodes to traces."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.runs.episodes import (
    again_option,
    counted,
    failure_lines,
    jobs_option,
    on_option,
    recordings,
    refuse_total_failure,
    scenario_named,
    seeds,
    shown,
    world_option,
)
from forewarn.cli.support import (
    Count,
    Number,
    Place,
    emit,
    json_option,
    seed_option,
    table,
)

if TYPE_CHECKING:
    from forewarn.scenarios.running.campaign import Kept
    from forewarn.scenarios.running.episode import Episode
    from forewarn.scenarios.running.plan import Plan
    from forewarn.scenarios.running.sampling import Goal, Until
    from forewarn.scenarios.schema import Scenario

MOST_EPISODES = 100_000
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h)?")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@click.command()
@click.argument("scenario")
@click.option(
    "--episodes",
    type=Count(min=1),
    help="How many; each has the next seed. 100, or of logs all; unless --until says"
    " when to stop.",
)
@click.option(
    "--until",
    type=click.Choice(["pac", "rate"]),
    help="Stop when enough is known. pac: how likely each law is to be broken, from"
    " every state. rate: how often it is broken in a run.",
)
@click.option(
    "--epsilon",
    type=Number(),
    default=0.1,
    show_default=True,
    help="With --until: how far off a probability may be.",
)
@click.option(
    "--delta",
    type=Number(),
    default=0.05,
    show_default=True,
    help="With --until: the probability that it is farther off.",
)
@click.option(
    "--within",
    type=Number(min=0, min_open=True),
    help="With --until pac: how many seconds the probability looks ahead; by default"
    " the scenario's horizon.",
)
@click.option(
    "--budget",
    metavar="EPISODES|TIME",
    default="1000",
    show_default=True,
    help="With --until: when to give up, such as 400, 90s or 10min.",
)
@seed_option
@world_option
@jobs_option
@on_option
@click.option(
    "--out",
    type=Place(file_okay=False),
    required=True,
    help="The folder that the traces go to; may be an address such as s3://b/runs.",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["columns", "jsonl"]),
    help="columns: Parquet files of many runs each, half the size, and read far"
    " faster (needs pyarrow); jsonl: a file a run, for people. By default what the"
    " folder holds already, else columns where pyarrow is installed.",
)
@again_option
@json_option
def collect(
    scenario: str,
    episodes: int | None,
    until: Until | None,
    epsilon: float,
    delta: float,
    within: float | None,
    budget: str,
    seed: int,
    world: str | None,
    jobs: int,
    on: str | None,
    out: Path,
    kind: str | None,
    again: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO without a guard and write a trace an episode.

    Only the rules that SCENARIO names are enforced, if it names any.

    SCENARIO is a name that `forewarn scenarios` lists, or a file. A campaign that was
    stopped goes on where it was when the command is given again.

    With --until pac it samples, learns and looks again after each doubling, until the
    probability of breaking each law is known to within --epsilon from every state that
    was seen, or the budget is used up; it then says how far it got. --until rate asks
    for less: how often a law is broken in a run.

    \b
    Example:
      forewarn collect tiny-road --episodes 200 --jobs 2 --out traces
      forewarn learn traces --scenario tiny-road --out model.json
      forewarn collect tiny-road --until rate --epsilon 0.05 --out sampled
    """
    from forewarn.abstractions.dataset.layout import parquet
    from forewarn.monitors.trust.pac import check_risks
    from forewarn.scenarios.running.campaign import frames_kept
    from forewarn.scenarios.running.plan import plan, without_risk
    from forewarn.scenarios.running.sampling import Goal

    wanted = scenario_named(scenario, world)
    model = without_risk(wanted, out) if wanted.judges else None
    if kind == "columns":
        parquet()
    asked: dict[str | None, Kept] = {"columns": "columns", "jsonl": "trace"}
    keep = asked.get(kind) or frames_kept(out)
    made = plan(wanted, model)
    campaign = _Campaign(wanted, made, seed, jobs, on, out, keep, again)
    reached: dict[str, Any] = {}
    told: list[str] = []
    if until is None:
        found = campaign.run(episodes or recordings(wanted) or 100)
        refuse_total_failure(found)
    else:
        goal = Goal(until, epsilon, delta, within or wanted.horizon_s)
        check_risks(epsilon, delta)
        found, reached, told = _sampled(campaign, goal, _budget(budget, episodes))
    rates = _rates(wanted, found)
    payload = {
        "scenario": wanted.name,
        "episodes": len(found),
        "frames": sum(episode.frames for episode in found if not episode.failed),
        "failed": sum(episode.failed for episode in found),
        "traces": _files(out, found),
        "laws": rates,
        "others": _others(out, found),
        **reached,
    }
    emit(as_json, payload, [*_lines(payload, rates, found, out), *told])


@dataclass(frozen=True, slots=True)
class _Campaign:
    """Unguarded episodes of one scenario, one seed after the other."""

    scenario: Scenario
    plan: Plan
    seed: int
    jobs: int
    on: str | None
    out: Path
    keep: Kept
    again: bool

    def run(self, episodes: int, until_s: float = math.inf) -> list[Episode]:
        """So many episodes, or as many as are done by a time of the clock."""
        from forewarn.scenarios.running import campaign
        from forewarn.scenarios.running.episode import by_seed

        wanted = seeds(self.seed, episodes)
        todo = campaign.jobs(self.plan, self.scenario, wanted, self.out, [self.keep])
        running = campaign.campaign(todo, campaign.pool(self.jobs, self.on), self.again)
        found: list[Episode] = []
        for episode in counted(running, "episodes", episodes):
            found.append(episode)
            if time.monotonic() > until_s:
                break
        running.close()
        return by_seed(found)


@dataclass(frozen=True, slots=True)
class _Budget:
    """How many episodes there may be, and how long it may take."""

    episodes: int
    time_s: float
    text: str


def _budget(text: str, episodes: int | None) -> _Budget:
    match = _BUDGET.fullmatch(text.strip())
    if match is None or not float(match[1]):
        raise click.BadParameter(
            f"{text!r:.40} is neither a number of episodes nor a time such as 10min",
            param_hint="--budget",
        )
    amount, unit = float(match[1]), match[2]
    if unit:
        return _Budget(episodes or MOST_EPISODES, amount * _SECONDS[unit], text)
    return _Budget(min(int(amount), episodes or MOST_EPISODES), math.inf, text)


def _sampled(
    campaign: _Campaign, goal: Goal, budget: _Budget
) -> tuple[list[Episode], dict[str, Any], list[str]]:
    """The episodes, what they tell, and that in sentences."""
    from forewarn.scenarios.running.sampling import Sampler, sizes

    sampler = Sampler(campaign.scenario, goal, campaign.out)
    until_s = time.monotonic() + budget.time_s
    for size in sizes(budget.episodes):
        found = campaign.run(size, until_s)
        refuse_total_failure(found)
        known = sampler.look(found)
        holds = all(each.holds(goal.until) for each in known)
        if holds or time.monotonic() > until_s:
            break
    facts = {
        "until": goal.until,
        "epsilon": goal.epsilon,
        "delta": goal.delta,
        "within_s": goal.within_s,
        "budget": budget.text,
        "looks": sampler.looks,
        "holds": holds,
        "laws": [each.as_dict() for each in known],
    }
    ended = "enough is known" if holds else f"the budget of {budget.text} is used up"
    told = [f"After {len(found)} episodes and {sampler.looks} looks {ended}."]
    told += [sentence for each in known for sentence in each.sentences(goal.until)]
    return found, {"pac": facts}, told


def _files(out: Path, episodes: Sequence[Episode]) -> list[str]:
    """The files of these episodes' traces: one each, or the parts they lie in."""
    from forewarn.scenarios.running.campaign import kept_in

    found = kept_in(out, episodes)
    return list(dict.fromkeys(str(run.path) for run in found))


def _others(out: Path, episodes: Sequence[Episode]) -> list[str]:
    """Traces in the folder that this campaign has not made: learn would take them."""
    from forewarn.abstractions.readers.stored import stored_runs

    ours = {episode.trace for episode in episodes}
    files = [*out.glob("*.jsonl*"), *out.glob("*.parquet")]
    names = (run.name for run in stored_runs(sorted(files)))
    return sorted(name for name in names if name not in ours)


def _rates(scenario: Scenario, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    from forewarn.monitors.evaluation.figures import rate, wilson

    good = [episode for episode in episodes if not episode.failed]
    found = []
    for law in scenario.laws:
        broken = sum(episode.first(law.name) is not None for episode in good)
        expected = scenario.expected_base_rate.get(law.name)
        interval = wilson(broken, len(good))
        off = (
            expected
            and interval
            and not (interval[0] <= expected[1] and expected[0] <= interval[1])
        )
        found.append(
            {
                "law": law.name,
                "violating": broken,
                "base_rate": rate(broken, len(good)),
                "interval": interval,
                "expected": expected,
                "as_expected": not off if expected else None,
            }
        )
    return found


def _lines(
    payload: dict[str, Any],
    rates: Sequence[dict[str, Any]],
    episodes: Sequence[Episode],
    out: Path,
) -> Iterator[str]:
    yield from failure_lines(episodes, out)
    kept = sum(each.trace is not None for each in episodes)
    yield (
        f"{kept} traces with {payload['frames']} frames in {out},"
        f" seeds {episodes[0].seed} to {episodes[-1].seed}"
    )
    if others := payload["others"]:
        yield (
            f"warning: {out} holds {len(others)} other traces, such as {others[0]};"
            " `forewarn learn` would take them too"
        )
    rows = [
        (
            shown(each["law"]),
            each["violating"],
            f"{each['base_rate']:.3f}",
            "{:.3f} to {:.3f}".format(*each["interval"]),
            "" if each["as_expected"] is not False else "not as the scenario expects",
        )
        for each in rates
    ]
    yield from table(["law", "broken in", "base rate", "95 %", ""], rows)
