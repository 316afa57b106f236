"""Where the processor's time goes in guarded drives through SUMO's traffic.

Takes a scenario and how many episodes; prints JSON: microseconds of a step by part, how
many values libsumo tells in it, and the microseconds that this takes.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import driving_steps
import libsumo

from forewarn.monitors.guarding.guard import Guard
from forewarn.plugins.driving.sense import Senses
from forewarn.plugins.sumo.pilots import SumoDriver
from forewarn.plugins.sumo.scene import SumoScene
from forewarn.scenarios.running.truth import Truth

BARE, REST = "libsumo loads and steps", "loop, world, episodes"
PARTS = {
    BARE: ((libsumo, "load"), (libsumo, "simulationStep"),
           (libsumo.vehicle, "setSpeed")),
    "who is where": ((SumoScene, "look"),),
    "signals": ((Senses, "values"),),
    "driver": ((SumoDriver, "propose"),),
    "guard": ((Guard, "review"),),
    "laws, for the truth": ((Truth, "frame"),),
}  # fmt: skip
ASKED = (libsumo.vehicle, libsumo.person, libsumo.trafficlight, libsumo.simulation)


class Clock:
    """Time of the processor by part; what a part calls of another is not its own."""

    def __init__(self) -> None:
        self.spent_s = dict.fromkeys((*PARTS, REST), 0.0)
        self._part, self._since_s = REST, time.thread_time()

    def turn(self, part: str) -> str:
        """From now on it is this part's; says whose it was."""
        now_s, before = time.thread_time(), self._part
        self.spent_s[before] += now_s - self._since_s
        self._part, self._since_s = part, now_s
        return before

    def timed(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            before = self.turn(part)
            try:
                return call(*arguments)
            finally:
                self.turn(before)

        return called


def main() -> None:
    name, episodes = sys.argv[1], int(sys.argv[2])
    _, planned = driving_steps.guarded(name)
    runner, first = driving_steps.runner_of(planned), driving_steps.SEED
    runner.run(first)
    seeds = range(first + 1, first + 1 + episodes)
    values, telling = told(lambda: sum(runner.run(seed).frames for seed in seeds))
    clock = Clock()
    for part, calls in PARTS.items():
        for owner, call in calls:
            setattr(owner, call, clock.timed(part, getattr(owner, call)))
    clock.turn(REST)
    clock.spent_s = dict.fromkeys(clock.spent_s, 0.0)
    frames = sum(runner.run(seed).frames for seed in seeds)
    clock.turn(REST)
    parts = {part: s / frames * 1e6 for part, s in clock.spent_s.items()}
    print(json.dumps({"parts": parts, "values": values, "telling": telling}))


def told(drive: Callable[[], int]) -> tuple[float, float]:
    """How many values libsumo tells in a step, and the microseconds that it takes."""
    values, spent_s = 0, 0.0
    kept = [(of, n, getattr(of, n)) for of in ASKED for n in dir(of) if n[:3] == "get"]

    def timed(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any) -> Any:
            nonlocal values, spent_s
            began_s = time.thread_time()
            found = call(*arguments)
            spent_s += time.thread_time() - began_s
            values += 1
            return found

        return staticmethod(called)

    for of, name, call in kept:
        setattr(of, name, timed(call))
    frames = drive()
    for of, name, call in kept:
        setattr(of, name, staticmethod(call))
    spent_s -= values * looking_s()
    return values / frames, spent_s / frames * 1e6


def looking_s() -> float:
    """What it takes to look at the processor's clock."""
    many, began_s = 20_000, time.thread_time()
    for _ in range(many):
        time.thread_time()
    return (time.thread_time() - began_s) / many


if __name__ == "__main__":
    main()
