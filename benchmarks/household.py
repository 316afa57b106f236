"""Figures of docs/household.md: steps per second, and the cost of the guard."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from run import Row, installed, learned, seconds

from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import STAGES, Policy, When
from forewarn.plugins.loop.guarding import Guarding
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
    yield from guarded(20 if quick else 200)


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


def guarded(episodes: int) -> Iterator[Row]:
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
