"""What a guarded step through SUMO's traffic costs, beside libsumo stepping alone.

python benchmarks/run.py driving_steps
python benchmarks/driving_steps.py --against COMMIT   paired with another commit
python benchmarks/driving_steps.py --parts            what the time goes to

Times are of the processor. Both commits drive the same seeds in turns, each with the
models that it ships; of each the least of several turns counts, because other work on
the machine only adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measuring import PEERS, Row

from forewarn.monitors.guarding.policy import load_policy
from forewarn.scenarios.running.campaign import campaign, jobs, pool
from forewarn.scenarios.running.plan import Plan, plan, runner_of
from forewarn.scenarios.schema import Scenario, load_scenario
from forewarn.scenarios.shipped import FOLDER, Shipped

NAMES = ("s1", "s3", "s4", "merge")
FRAMES = 350  # of an episode of 35 s
EPISODES = 200
SEED = 1_500_000
ROOT = Path(__file__).parents[1]


def rows(quick: bool) -> Iterator[Row]:
    if find_spec("libsumo") is None:
        yield Row("guarded step in SUMO", 0.0, peer="libsumo is not installed")
        return
    for name in NAMES:
        found = cheapest(step(ROOT, name) for _ in range(2 if quick else 5))
        what = f"guarded step in SUMO, {name}, all signals"
        yield Row(what, found.all_s, None, "libsumo alone, its part", found.bare_s)
    episodes = 40 if quick else EPISODES
    scenario, planned = guarded(NAMES[0])
    took_s = together(scenario, planned, episodes * FRAMES) * EPISODES / episodes
    what = f"{EPISODES} guarded episodes of 35 s, {NAMES[0]}, two processes"
    yield Row(what, took_s, 10.0)


def guarded(name: str) -> tuple[Scenario, Plan]:
    """A scenario with the guard that ships."""
    scenario, files = load_scenario(name), Shipped.in_folder(FOLDER, name)
    return scenario, plan(scenario, files.model, load_policy(files.policy))


def together(scenario: Scenario, planned: Plan, frames: int) -> float:
    """How long so many frames take two processes, their start included."""
    with tempfile.TemporaryDirectory() as folder:
        typical = runner_of(planned).run(SEED).frames
        seeds = range(SEED, SEED + max(1, round(frames / typical)))
        todo = jobs(planned, scenario, seeds, Path(folder))
        began = time.perf_counter()
        seen = sum(each.frames for each in campaign(todo, pool(2)))
        return (time.perf_counter() - began) * frames / seen


@dataclass(frozen=True, slots=True)
class Step:
    """What one step costs, all of it and libsumo's part, loading included."""

    all_s: float
    bare_s: float

    @property
    def of_bare(self) -> float:
        """How many times what libsumo alone costs."""
        return self.all_s / self.bare_s

    @property
    def said(self) -> str:
        micro = f"{self.all_s * 1e6:.0f} of {self.bare_s * 1e6:.0f}"
        return f"{micro} µs, {self.of_bare:.2f}x"


def cheapest(turns: Iterable[Step]) -> Step:
    """Of several turns, what other work on the machine added the least to."""
    found = list(turns)
    return Step(min(s.all_s for s in found), min(s.bare_s for s in found))


def step(checkout: Path, name: str) -> Step:
    """A step of whole guarded episodes, in a Python of its own."""
    found = driven(checkout, "sumo_steps.py", name)
    return Step(found["all_s"] / found["frames"], found["bare_s"] / found["frames"])


def driven(checkout: Path, peer: str, name: str, episodes: int = 10) -> dict[str, Any]:
    """What a script says of guarded episodes with the Forewarn of a checkout."""
    paths = map(str, (checkout, checkout / "benchmarks"))
    done = subprocess.run(
        [sys.executable, str(PEERS / peer), name, str(episodes)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Another commit in a folder of its own, with its plugs where Python finds them."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", tree, commit], check=True)
        try:
            project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
            facts = tree / f"forewarn-{project.get('version', '0')}.dist-info"
            facts.mkdir()
            (facts / "METADATA").write_text("Name: forewarn\nVersion: 0\n")
            with (facts / "entry_points.txt").open("w") as out:
                for group, points in project["entry-points"].items():
                    lines = (f"{name} = {where}\n" for name, where in points.items())
                    out.writelines([f"[{group}]\n", *lines])
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", tree], check=True)


def against(commit: str, turns: int) -> Iterator[str]:
    """Each scenario's step beside that of another commit.

    How much faster is said in multiples of what libsumo alone took each of them.
    """
    yield f"{'':8}{commit[:9]:>20}{'here':>20}{'faster':>8}"
    with checked_out(commit) as tree:
        for name in NAMES:
            pairs = [(step(tree, name), step(ROOT, name)) for _ in range(turns)]
            before, here = map(cheapest, zip(*pairs, strict=True))
            faster = before.of_bare / here.of_bare
            yield f"{name:8}{before.said:>20}{here.said:>20}{faster:7.2f}x"


def parts(turns: int) -> Iterator[str]:
    """What a step's time goes to."""
    for name in NAMES:
        found = [driven(ROOT, "sumo_parts.py", name) for _ in range(turns)]
        least = {
            part: min(turn["parts"][part] for turn in found)
            for part in found[0]["parts"]
        }
        whole = sum(least.values())
        yield f"{name}: {whole:.0f} µs"
        for part, took in least.items():
            yield f"  {part:26}{took:6.0f} µs {took / whole:6.0%}"
        values, took = found[0]["values"], min(turn["telling"] for turn in found)
        part = f"of it {values:.0f} values asked"
        yield f"  {part:26}{took:6.0f} µs {took / whole:6.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--against", metavar="COMMIT")
    what.add_argument("--parts", action="store_true")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    turns = options.turns
    for line in parts(turns) if options.parts else against(options.against, turns):
        print(line, flush=True)


if __name__ == "__main__":
    main()
