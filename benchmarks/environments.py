"""What a world of an environment costs a step, beside the bare environment.

    python benchmarks/environments.py

Prints microseconds of processor time: the environment's own step, and what `EnvWorld`
adds to it, with signals by a map, for a discrete and for a continuous action.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.gym import EnvWorld

STEPS, ROUNDS = 500, 15
BAR_US = 40.0

SPEED = {"speed": {"at": "observation[0]", "unit": "m/s"}}
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "CartPole-v1, 4 signals": (
        {
            "env": "CartPole-v1",
            "signals": {
                name: f"observation[{i}]"
                for i, name in enumerate(("speed", "acceleration", "brake", "throttle"))
            },
            "stop": 0,
        },
        1,
    ),
    "a car, 1 signal with a unit": (
        {
            "env": "forewarn.plugins.gym.example:Car",
            "signals": SPEED,
            "stop": [-1.0],
        },
        [0.1],
    ),
}


def _us(step: Callable[[], Any], begin: Callable[[], Any]) -> float:
    """The median round's processor time for a step."""
    rounds = []
    for _ in range(ROUNDS):
        spent = 0
        for i in range(STEPS):
            if i % 8 == 0:
                begin()
            began = time.process_time_ns()
            step()
            spent += time.process_time_ns() - began
        rounds.append(spent / STEPS / 1000.0)
    return statistics.median(rounds)


def _measured(settings: dict[str, Any], value: Any) -> tuple[float, float]:
    """A step of the bare environment, and of the world that it is."""
    world = EnvWorld(
        vocabulary="driving", period_s=0.1, shows="speed < 1 km/h", **settings
    )
    action = Action("act", {"action": value})
    env, own = world._env, world._space.element(value)
    bare = _us(lambda: env.step(own), lambda: env.reset(seed=1))
    whole = _us(lambda: world.step(action), lambda: world.reset(1))
    world.close()
    return bare, whole


def main() -> None:
    print("case                          bare     added, µs a step")
    for name, (settings, value) in CASES.items():
        bare, whole = _measured(settings, value)
        bar = "" if whole - bare <= BAR_US else f"   above the bar of {BAR_US:g}"
        print(f"{name:28} {bare:6.1f}  {whole - bare:8.1f}{bar}")


if __name__ == "__main__":
    main()
