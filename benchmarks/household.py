"""Figures of docs/household.md: speed, and warnings of things left on or open.

    python benchmarks/run.py household
    python benchmarks/household.py --runs out/runs [--episodes 400]

The first command measures steps per second, and the cost of the guard. The second uses
VirtualHome: on held-out seeds of the shipped scenario, it compares the shipped model;
gradient boosting and logistic regression on the raw signals and their last second,
fitted to the model's training runs; and the number of things left on or open. Each
threshold is chosen on the held-out runs for a false-alarm rate of at most 10 %.

A guard that reviews each action in advance also predicts the state to which the action
would lead. Finally, some runs are repeated with the guard asking the agent to
reconsider.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from held_out import (
    ALLOWED,
    GUARD,
    GUARDED,
    LEARNED,
    Outcomes,
    Recordings,
    Way,
    fresh,
    leads,
    scored,
    shipped,
    with_guard,
)
from run import Row, command_line, installed, learned, markdown, seconds

from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.foretold import Foretold, early
from forewarn.monitors.finding.corpus import Corpus
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import STAGES, Policy, Step, When
from forewarn.plugins.loop.guarding import Guarding
from forewarn.scenarios.shipped import FOLDER
from forewarn.thor_bridge.bridge import HouseholdWorld
from forewarn.thor_bridge.household.actions import LocalController
from forewarn.thor_bridge.steps import parse_step

SCENE = "Kitchen1"
CACHED_S = 0.005
"""ProbGuard's best mean time in seconds per decision for household robots, with its
cache.
"""

PREDICATES = (
    "is_inside(Fork, Microwave)",
    "is_toggled(Microwave)",
    "is_open(Microwave)",
    "is_held(Fork)",
    "is_hot(Mug)",
    "is_inside(Mug, Microwave)",
)
LAW = "always not (is_inside(Fork, Microwave) and is_toggled(Microwave))"
PLAN = (
    "find Fork", "pick Fork", "find Microwave", "open Microwave", "put Microwave",
    "pick Fork", "close Microwave", "turn on Microwave", "turn off Microwave",
    "drop", "find Mug", "pick Mug", "find Microwave", "open Microwave",
    "put Microwave", "close Microwave", "turn on Microwave", "turn off Microwave",
    "open Microwave", "pick Mug",
)  # fmt: skip
"""A plan that changes the predicates' values and breaks no law."""

TURN = {"action": "RotateRight"}
WALK = ({"action": "MoveAhead"}, {"action": "MoveBack"})


def rows(quick: bool) -> Iterator[Row]:
    steps = 2_000 if quick else 10_000
    inside = LocalController(SCENE)
    count = len(inside.world.objects)
    for what, actions in (("turning", (TURN,)), ("walking", WALK)):
        yield Row(
            f"in process, {what}, all metadata of {count} objects",
            per_second(inside, actions, steps),
            5_000,
            rate=True,
        )
    yield Row("in process, reset", seconds(lambda: inside.reset(SCENE)), 0.02)
    if installed("ai2thor") and installed("msgpack"):
        yield from through_ai2thor(200 if quick else 2_000)
    yield from decisions(20 if quick else 200)


def per_second(
    controller: Any, actions: tuple[dict[str, Any], ...], steps: int
) -> float:
    """Returns the median rate of ten batches, in steps per second."""
    rates = []
    for _ in range(10):
        start = time.perf_counter()
        for step in range(steps // 10):
            controller.step(**actions[step % len(actions)])
        rates.append(steps // 10 / (time.perf_counter() - start))
    return statistics.median(rates)


def through_ai2thor(steps: int) -> Iterator[Row]:
    """Measures the household in a separate process, through ai2thor's own controller
    without pictures.
    """
    import forewarn.thor_bridge.watchdog  # noqa: F401 - imports ai2thor
    from forewarn.thor_bridge.wire import connect

    with home():
        start = time.perf_counter()
        controller = connect(SCENE)
        started_s = time.perf_counter() - start
        try:
            yield Row("start, with ai2thor imported", started_s, 1.0)
            yield Row(
                "reset, over FIFO", seconds(lambda: controller.reset(SCENE)), 0.02
            )
            for what, actions in (
                ("turning", (TURN,)),
                ("walking", WALK),
            ):
                yield Row(
                    f"ai2thor's Controller over FIFO, {what}",
                    per_second(controller, actions, steps),
                    500,
                    rate=True,
                )
        finally:
            controller.stop()


@contextmanager
def home() -> Iterator[None]:
    """Sets a temporary home folder, because ai2thor writes to the home folder."""
    before = os.environ.get("HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["HOME"]
            else:
                os.environ["HOME"] = before


def decisions(episodes: int) -> Iterator[Row]:
    """Measures the time that the guard adds to a decision, without and with
    foresight.
    """
    world = HouseholdWorld(scene=SCENE, watch=list(PREDICATES))
    plan = [parse_step(step) for step in PLAN]
    frames = [world.reset(0), *(world.step(action) for action in plan)]
    seen = [frame.values for frame in frames]
    model = learned(
        seen, PREDICATES, (LAW,), "household", period_s=1.0, alpha=Fraction(1, 10)
    )
    for when, what in (
        ("after", "on the observed state"),
        ("before", "on the state that the action would lead to, without predicting it"),
    ):
        guard = guard_of(model, when)  # type: ignore[arg-type]
        times = [
            took
            for _ in range(episodes)
            for took in reviewed(guard, frames, plan, frames[1:])
        ]
        yield Row(
            f"a decision in a household task, {what}",
            statistics.fmean(times),
            200e-6,
            "ProbGuard, embodied, cached, published: 5 to 28 ms",
            CACHED_S,
        )
    world.reset(0)
    for step, action in enumerate(plan):
        if step in (6, 7):
            took = seconds(lambda action=action: world.foresee(action), number=5)  # type: ignore[misc]
            yield Row(f"foreseeing `{PLAN[step]}`, in process", took)
        world.step(action)
    world.close()


def guard_of(model: Model, when: When) -> Guard:
    policy = Policy(when=when, deadline_s=dict.fromkeys(STAGES, 1.0), max_age_s=1e9)
    return Guarding([model], policy).guard(clock=lambda: 0.0)


def reviewed(
    guard: Guard, frames: list[Frame], plan: list[Action], ahead: list[Frame]
) -> Iterator[float]:
    """Yields the time of each decision in an episode."""
    guard.reset()
    clock: Callable[[], float] = time.perf_counter
    for frame, action, foreseen in zip(frames, plan, ahead, strict=False):
        start = clock()
        guard.review(frame, action, foreseen)
        yield clock() - start


# -- things left on or open

NAME = "virtualhome-chores"
FIRST_SEED = 9_100_000
REFLECT = Policy(rules={"*": (Step("reflect", 0.9),)}, when="before")
"""Withholds an action that would lead to a risk of 0.9 or more, and tells the agent
why.
"""

HEAD = (
    "law", "warned by", "detection rate", "mean lead time", "median",
    "at least 2 s ahead",
)  # fmt: skip
"""An action takes 1 s, so every warning in time is at least 1 s ahead."""

_LEFT = {"off_when_done": "left_on", "closed_when_done": "left_open"}


def things_left(
    told: Recordings, corpus: Corpus, out: Sequence[int]
) -> Iterator[Outcomes]:
    """Scores frames by the number of things left on or open."""
    name = _LEFT[corpus.laws[0].name]
    yield from scored(
        told, corpus, out, lambda run: run.signals[name].astype(float) / 100.0
    )


def foreseen(each: Foretold, horizon_s: float, known: bool = True) -> Foretold:
    """Returns the same run with the risks of the states to which the next actions would
    lead.

    Args:
        each: The run.
        horizon_s: The horizon.
        known: Whether to use the predicted risks; otherwise only predicted violations.
    """
    now = each.risks[horizon_s] if known else np.zeros(len(each.times_s))
    last = now[-1:] if each.broken is None else np.ones(1)
    return replace(each, risks={horizon_s: np.concatenate([now[1:], last])})


def table(
    *,
    runs: Path,
    trained: Path = FOLDER,
    episodes: int = 200,
    seed: int = FIRST_SEED,
    guarded: int = 100,
) -> Iterator[str]:
    """Yields the table of warnings, then that of guarded runs."""
    of = fresh(NAME, range(seed, seed + episodes), trained, runs)
    horizon_s = of.told.scenario.horizon_s
    ways: dict[str, Way] = {
        GUARD: shipped(of.files),
        **LEARNED,
        "things left": things_left,
    }
    rows = list[tuple[str, ...]]()
    for number, law in enumerate(of.told.scenario.laws):
        found = of.found(ways, number)
        ours = found[GUARD]
        found[f"{GUARD}, before each action"] = [foreseen(e, horizon_s) for e in ours]
        found["the law itself, before each action"] = [
            foreseen(each, horizon_s, known=False) for each in ours
        ]
        broken = sum(each.broken is not None for each in ours)
        name = f"`{law.name}` ({broken} of {len(ours)} runs)"
        for way, several in found.items():
            rows.append((name, way, *leads(early(several, horizon_s, ALLOWED), 2.0)))
    yield from markdown(HEAD, rows)
    yield ""
    yield from markdown(GUARDED, [with_guard(of, REFLECT, guarded)])


if __name__ == "__main__":
    command_line(__doc__, table)
