"""`forewarn demo`: collects, learns, warns, measures and intervenes in embedded
worlds.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarn.cli.command import (
    Folder,
    Many,
    command,
)
from forewarn.cli.episodes import (
    counted,
)
from forewarn.cli.printing import (
    printed,
    progress,
    say,
    several,
    shown,
    tell,
)

if TYPE_CHECKING:
    from forewarn.scenarios.demo.tour import Leg, Travelled


REPORT = "report.html"
_MOST_JOBS = 4

_SUMO = (
    "SUMO is not installed, so the demo uses a small embedded road instead; pip "
    "install 'forewarn[sumo]' installs SUMO."
)
_ROBOT = (
    "The robot is our own planner: we chose how careless it is and how often it "
    "heeds a warning. These results say nothing about an LLM."
)
_WHERE = {
    "s1": "At a light that turns yellow",
    "s3": "In a left turn across oncoming traffic",
    "tiny-road": "On a road with a light and perhaps a car ahead",
    "fork-in-microwave": "In a kitchen with a fork and a microwave",
}
_DOES = {"stop": "stopping the car", "reflect": "making the robot reconsider"}


@command()
def demo(
    *,
    out: Folder = Path("forewarn-demo"),
    jobs: Many | None = None,
) -> None:
    """Demonstrate every step in about a minute: collect, learn, warn, intervene,
    measure, report.

    Drivers approach a light that turns yellow, or turn left across oncoming traffic; a
    robot is told to heat a fork in the microwave. Chains are learned from unguarded
    runs. Held-out runs then show how early the guard warns, how many false alarms it
    gives, and how many violations its interventions prevent.

    \b
    Example:
      forewarn demo --out out/demo

    Args:
        out: Folder for the report, the learned models and the runs.
        jobs: Number of processes (default: the number of cores, at most 4).
    """
    from forewarn.scenarios.demo import tour
    from forewarn.scenarios.report.page import write_report
    from forewarn.scenarios.running.campaign import pool

    missing = [] if find_spec("libsumo") else [_SUMO]
    driving = tour.WITHOUT_SUMO if missing else tour.DRIVING
    on = pool(jobs or min(os.cpu_count() or 1, _MOST_JOBS))
    found: list[Travelled] = []
    tell(missing)
    for number, leg in enumerate((*driving, *tour.HOUSEHOLD), start=1):
        folder = out / leg.scenario
        if (folder / tour.MEASUREMENT).exists():
            shutil.rmtree(folder)  # results of an earlier, complete demo
        done = tour.travel(leg, folder, on, counted, progress)
        found.append(done)
        tell(_section(number, done))
    sentences = [sentence(each) for each in found]
    sources = [path for each in found for path in each.sources]
    title = "Results of the demo"
    told = write_report(
        sources, out / REPORT, title, [*missing, *sentences, *_remarks(found)]
    )
    payload = {
        "legs": [_facts(each) for each in found],
        "sentences": sentences,
        "missing": missing,
        "report": told["report"],
        "cautions": told["cautions"],
    }
    ends = [f"{i}. {text}" for i, text in enumerate(sentences, start=1)]
    page = f"Watch the runs in a browser: {out / REPORT}"
    say(payload, ["In short", "========", *ends, "", page])


def _seeds(seeds: range) -> str:
    return f"{seeds[0]} to {seeds[-1]}"


def _section(number: int, done: Travelled) -> Iterator[str]:
    from forewarn.scenarios.measuring.shown import guarded as compared

    leg = done.leg
    title = f"{number}. {done.scenario.title} ({leg.scenario})"
    yield title
    yield "=" * len(title)
    yield (
        f"Collected {len(leg.training)} unguarded runs, seeds {_seeds(leg.training)}."
    )
    starts = ", ".join(
        f"{done.policy.steps_for(name)[0].threshold:g} ({shown(name)})"
        for name in done.policy.rules
    )
    yield (
        f"Learned a chain with {done.trained.models[0].chain.n - 1} states and "
        f"END over {len(done.scenario.abstraction.texts)} predicates. Thresholds, "
        f"set on other runs: {starts}."
    )
    came = {row.law: row.as_dict() for row in done.measured.rows}
    for law, promise in done.policy.promises.items():
        yield f"  {shown(law)}: {promise.sentence(came.get(law))}."
    yield (
        f"On {len(leg.held_out)} held-out runs, seeds {_seeds(leg.held_out)}, with a"
        f" horizon of {done.measured.horizon_s:g} s:"
    )
    yield from (f"  {line}" for line in _measured(done))
    guarded = done.measured.guarded
    if guarded is not None:
        yield f"With the guard intervening ({leg.kind}) on the same seeds:"
        yield from (f"  {line}" for line in printed(compared(guarded)))
    if done.seed is not None:
        yield f"Seed {done.seed} is in the report, without and with the guard."
    if leg.kind == "reflect":
        yield _ROBOT
    yield ""


def _measured(done: Travelled) -> Iterator[str]:
    from forewarn.scenarios.measuring.shown import BRIEFLY, early, statistics

    rows = [row.as_dict() for row in done.measured.rows]
    yield from printed([statistics(("law", *BRIEFLY), rows)])
    yield from early(rows)


def sentence(done: Travelled) -> str:
    """Returns a sentence with the results of one part of the demo."""
    from forewarn.scenarios.measuring.shown import lead_times

    leg, row = done.leg, done.row
    facts = row.as_dict()
    runs = facts["violating"] + facts["clean"]
    warned = _count(facts["detected"], facts["violating"])
    early, alarms = lead_times(facts), facts["false_alarms"]
    text = (
        f"{_WHERE[leg.scenario]}, {facts['violating']} of {runs} held-out runs broke"
        f" the rule. The guard warned of {warned} before the trigger{early}, with"
        f" {several(alarms, 'false alarm')} in {facts['clean']} clean runs."
    )
    guarded = done.measured.guarded
    if guarded is None:
        return text
    (law,) = (each for each in guarded["laws"] if each["law"] == row.law)
    left = law["violating_guarded"]
    text += f" By {_DOES[leg.kind]} in time, it reduces the violations to {left}"
    before, after = (guarded["outcomes"][side] for side in ("unguarded", "guarded"))
    if after["arrived"] is None:
        return f"{text}."
    ends = f"{after['arrived']} runs {after['arrived_means']}"
    without = f"{before['arrived']}"
    if after["standing"]:
        ends += f" and {after['standing']} stand still until the time limit"
        without += f" and {before['standing']}"
    return f"{text}; {ends} ({without} without the guard)."


def _count(part: int, whole: int) -> str:
    return "none" if part == 0 else f"all {part}" if part == whole else str(part)


def _remarks(found: Sequence[Travelled]) -> list[str]:
    """Notes that qualify the figures."""
    legs: Sequence[Leg] = [each.leg for each in found]
    seeds = "; ".join(
        (
            f"{leg.scenario}: learned from seeds {_seeds(leg.training)}, evaluated on "
            f"{_seeds(leg.held_out)}"
        )
        for leg in legs
    )
    return [f"{seeds}.", _ROBOT]


def _facts(done: Travelled) -> dict[str, Any]:
    leg = done.leg
    return {
        "scenario": leg.scenario,
        "training_seeds": [leg.training[0], leg.training[-1]],
        "held_out_seeds": [leg.held_out[0], leg.held_out[-1]],
        "states": done.trained.models[0].chain.n,
        "promises": {
            law: each.model_dump() for law, each in done.policy.promises.items()
        },
        "intervene": leg.kind,
        "laws": [row.as_dict() for row in done.measured.rows],
        "guarded": done.measured.guarded,
        "shown_seed": done.seed,
        "records": [str(path) for path in done.records],
    }
