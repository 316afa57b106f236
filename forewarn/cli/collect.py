"""`forewarn collect`: records unguarded runs as traces."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from forewarn.cli.command import (
    Chance,
    FolderPlace,
    Formerly,
    Many,
    Seed,
    command,
)
from forewarn.cli.episodes import (
    counted,
    failure_lines,
)
from forewarn.cli.groups import (
    Where,
    Working,
)
from forewarn.cli.printing import (
    say,
    shown,
    table,
)

if TYPE_CHECKING:
    from forewarn.scenarios.running.campaign import Kept
    from forewarn.scenarios.running.episode import Episode


MOST_EPISODES = 100_000
_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h)?")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Enough:
    """The criterion for ending the collection.

    Args:
        until: Stop when an estimate is accurate enough. rate: the fraction of runs that
            break each law.
        epsilon: With --until: maximum error of the estimate.
        delta: With --until: maximum probability of a larger error.
        budget: With --until: maximum number of runs, such as 400, or time limit, such
            as 90s or 10min.
    """

    until: Literal["rate"] | None = None
    epsilon: Chance = 0.1
    delta: Chance = 0.05
    budget: Annotated[str, "RUNS|TIME"] = "1000"

    def limits(self, episodes: int | None) -> tuple[int, float]:
        """Returns the maximum number of runs, and the time limit in s."""
        match = _BUDGET.fullmatch(self.budget.strip())
        if match is None or not float(match[1]):
            raise click.BadParameter(
                f"{self.budget!r:.40} is neither a number of runs nor a time such as"
                " 10min",
                param_hint="--budget",
            )
        amount, unit = float(match[1]), match[2]
        if unit:
            return episodes or MOST_EPISODES, amount * _SECONDS[unit]
        return min(int(amount), episodes or MOST_EPISODES), math.inf


@command()
def collect(
    scenario: str,
    /,
    *,
    episodes: Many | None = None,
    goal: Enough,
    seed: Seed = 0,
    where: Where,
    working: Working,
    out: FolderPlace,
    format_: Literal["columns", "jsonl"] | None = None,
    rerun: Annotated[bool, Formerly("--again")] = False,
) -> None:
    """Run SCENARIO without a guard and record each run as a trace.

    If SCENARIO contains rules, they are enforced.

    SCENARIO is a name that `forewarn scenarios` lists, or a file. After an
    interruption, run the same command again to continue.

    With --until rate, the violation rates are checked each time the number of runs has
    doubled. The command stops when the rate of each law is known to within --epsilon or
    when the budget is used up, and prints the accuracy that was reached.

    \b
    Example:
      forewarn collect tiny-road --episodes 200 --jobs 2 --out traces
      forewarn learn traces --scenario tiny-road --out model.json
      forewarn collect tiny-road --until rate --epsilon 0.05 --out sampled

    Args:
        episodes: Number of runs, with consecutive seeds (default: 100, or all
            recordings of a log scenario, unless --until is given).
        seed: Seed of the first run.
        out: Folder for the traces, or a storage URL such as s3://b/runs.
        format_: columns: Parquet files with many runs each, half the size and much
            faster to read (needs pyarrow). jsonl: one human-readable file per run.
            Default: the format of the traces in the folder, or else columns if pyarrow
            is installed.
        rerun: Repeat runs even if their traces are already in the folder.
    """
    from forewarn.abstractions.dataset.layout import parquet
    from forewarn.scenarios.running.campaign import frames_kept, recordings
    from forewarn.scenarios.running.sampling import (
        Campaign,
        Goal,
        base_rates,
        check_error,
        refuse_total_failure,
        sampled,
    )

    wanted = where.scenario(scenario)
    if format_ == "columns":
        parquet()
    asked: dict[str | None, Kept] = {"columns": "columns", "jsonl": "trace"}
    keep = asked.get(format_) or frames_kept(out)
    campaign = Campaign(wanted, seed, working.pool(), out, keep, rerun, counted)
    facts: dict[str, Any] = {}
    told: list[str] = []
    if goal.until is None:
        found = campaign.run(episodes or recordings(wanted) or 100)
        refuse_total_failure(found)
    else:
        check_error(goal.epsilon, goal.delta)
        most, time_s = goal.limits(episodes)
        aim = Goal(goal.epsilon, goal.delta)
        found, rated, told = sampled(campaign, aim, most, time_s, goal.budget)
        facts = {"rate": rated}
    rates = base_rates(wanted, found)
    payload = {
        "scenario": wanted.name,
        "episodes": len(found),
        "frames": sum(episode.frames for episode in found if not episode.failed),
        "failed": sum(episode.failed for episode in found),
        "traces": _files(out, found),
        "laws": rates,
        "others": _others(out, found),
        **facts,
    }
    say(payload, [*_lines(payload, rates, found, out), *told])


def _files(out: Path, episodes: Sequence[Episode]) -> list[str]:
    """Returns the files that contain the traces of these runs."""
    from forewarn.scenarios.running.campaign import kept_in

    found = kept_in(out, episodes)
    return list(dict.fromkeys(str(run.path) for run in found))


def _others(out: Path, episodes: Sequence[Episode]) -> list[str]:
    """Returns the names of other traces in the folder, which `forewarn learn` would
    read too.
    """
    from forewarn.abstractions.readers.stored import stored_runs

    ours = {episode.trace for episode in episodes}
    files = [*out.glob("*.jsonl*"), *out.glob("*.parquet")]
    names = (run.name for run in stored_runs(sorted(files)))
    return sorted(name for name in names if name not in ours)


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
            f"warning: {out} contains {len(others)} other traces, such as "
            f"{others[0]}; `forewarn learn` would read them too"
        )
    rows = [
        (
            shown(each["law"]),
            each["violating"],
            f"{each['base_rate']:.3f}",
            "{:.3f} to {:.3f}".format(*each["interval"]),
            ""
            if each["as_expected"] is not False
            else ("outside the scenario's expected range"),
        )
        for each in rates
    ]
    yield from table(["law", "violations", "base rate", "95 %", ""], rows)
