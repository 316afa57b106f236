"""`forewarn collect`: unguarded episodes to traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.episodes import (
    FOLDER,
    again_option,
    counted,
    failure_lines,
    jobs_option,
    refuse_total_failure,
    seeds,
    shown,
)
from forewarn.cli.support import emit, json_option, seed_option, table

if TYPE_CHECKING:
    from forewarn.scenarios.episode import Episode
    from forewarn.scenarios.schema import Scenario


@click.command()
@click.argument("scenario")
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    help="How many; each has the next seed.",
)
@seed_option
@jobs_option
@click.option(
    "--out", type=FOLDER, required=True, help="The folder that the traces go to."
)
@again_option
@json_option
def collect(
    scenario: str,
    episodes: int,
    seed: int,
    jobs: int,
    out: Path,
    again: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO without a guard and write a trace an episode.

    SCENARIO is a name that `forewarn scenarios` lists, or a file. A campaign that was
    stopped goes on where it was when the command is given again.

    \b
    Example:
      forewarn collect tiny-road --episodes 200 --jobs 2 --out traces
      forewarn learn traces --scenario tiny-road --out model.json
    """
    from forewarn.scenarios import campaign
    from forewarn.scenarios.episode import by_seed
    from forewarn.scenarios.plan import plan
    from forewarn.scenarios.schema import load_scenario

    wanted = load_scenario(scenario)
    todo = campaign.jobs(plan(wanted), wanted, seeds(seed, episodes), out, ["trace"])
    running = campaign.campaign(todo, campaign.pool(jobs), again)
    found = by_seed(list(counted(running, "episodes", episodes)))
    refuse_total_failure(found)
    rates = _rates(wanted, found)
    payload = {
        "scenario": wanted.name,
        "episodes": len(found),
        "frames": sum(episode.frames for episode in found if not episode.failed),
        "failed": sum(episode.failed for episode in found),
        "traces": [str(out / each.trace) for each in found if each.trace],
        "laws": rates,
        "others": _others(out, found),
    }
    emit(as_json, payload, _lines(payload, rates, found, out))


def _others(out: Path, episodes: Sequence[Episode]) -> list[str]:
    """Traces in the folder that this campaign has not made: learn would take them."""
    ours = {episode.trace for episode in episodes}
    return sorted(path.name for path in out.glob("*.jsonl*") if path.name not in ours)


def _rates(scenario: Scenario, episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    from forewarn.scenarios.figures import rate, wilson

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
    yield (
        f"{len(payload['traces'])} traces with {payload['frames']} frames in {out},"
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
