"""How fast guarded drives through SUMO's traffic go, in one process and in two."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from measuring import Row

from forewarn.monitors.guarding.policy import load_policy
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.plan import Plan, plan, runner_of
from forewarn.scenarios.running.runner import Keep
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped

NAMES = ("s1", "s4", "merge")
FRAMES = 350  # of an episode of 35 s
EPISODES = 200
SEED = 1_500_000


def rows(quick: bool) -> Iterator[Row]:
    if find_spec("libsumo") is None:
        yield Row("guarded steps in SUMO", 0.0, peer="libsumo is not installed")
        return
    frames = 3_000 if quick else 30_000
    for name in NAMES:
        scenario, planned = guarded(name)
        for bar, recorded in ((10_000, False), (7_000, True)):
            what = f"guarded steps in SUMO, {name}, all signals"
            what += ", recorded" if recorded else ""
            yield Row(what, steps(planned, frames, recorded), bar, rate=True)
    episodes = 40 if quick else EPISODES
    scenario, planned = guarded(NAMES[0])
    took_s = together(scenario, planned, episodes * FRAMES) * EPISODES / episodes
    what = f"{EPISODES} guarded episodes of 35 s, {NAMES[0]}, two processes"
    yield Row(what, took_s, 10.0)


def guarded(name: str) -> tuple[Scenario, Plan]:
    """A scenario with the guard that ships."""
    scenario, files = load_scenario(name), Shipped.in_folder(FOLDER, name)
    return scenario, plan(scenario, files.model, load_policy(files.policy))


def steps(planned: Plan, frames: int, recorded: bool) -> float:
    """Steps a second over whole episodes, the simulation's own time included."""
    runner, seen = runner_of(planned), 0
    with tempfile.TemporaryDirectory() as folder:
        runner.run(SEED)
        began = time.perf_counter()
        for seed in count(SEED + 1):
            path = Path(folder) / f"{seed}.jsonl" if recorded else None
            seen += runner.run(seed, Keep(record=path)).frames
            if seen >= frames:
                return seen / (time.perf_counter() - began)
    raise AssertionError("seeds do not end")


def together(scenario: Scenario, planned: Plan, frames: int) -> float:
    """How long so many frames take two processes, their start included."""
    with tempfile.TemporaryDirectory() as folder:
        typical = runner_of(planned).run(SEED).frames
        seeds = range(SEED, SEED + max(1, round(frames / typical)))
        todo = jobs(planned, scenario, seeds, Path(folder))
        began = time.perf_counter()
        seen = sum(each.frames for each in campaign(todo, pool(2)))
        return (time.perf_counter() - began) * frames / seen
