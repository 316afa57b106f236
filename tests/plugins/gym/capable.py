"""Gymnasium's rows in the table of capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from forewarn.abstractions.frame import Frame, Source
from forewarn.plugins.loop.guarding import Guarding
from tests.plugins.capabilities import BLIND, SIMULATED, Way

STEPS = 5


class Single(Way):
    name, title = "GuardedEnv", "a Gymnasium environment"
    needs = "gymnasium"
    without: ClassVar[Mapping[str, str]] = {
        "`when: before`": BLIND,
        "lease": SIMULATED,
    }

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        source = Source("environment", "driving", ("speed",), 0.1)
        return source, Frame(0.0, 0, {"speed": 7.0})

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        import numpy as np

        from forewarn.plugins.gym import EnvActuator, Equipment

        brake = np.array([-1.0], np.float32)
        with closing(
            self.guarded(
                Equipment(
                    guarding,
                    lambda observation, info: {"speed": float(observation[0])},
                    EnvActuator(brake, lambda decision, frame: True),
                    0.1,
                )
            )
        ) as env:
            env.reset(seed=1)
            for _ in range(STEPS):
                env.step(self.action())

    def guarded(self, equipment: Any) -> Any:
        """A guarded environment of one car."""
        from forewarn.plugins.gym import GuardedEnv
        from forewarn.plugins.gym.bridge import Car

        given = equipment.guarding, equipment.signals, equipment.actuator
        return GuardedEnv(Car(), *given, equipment.period_s)

    def action(self) -> Any:
        import numpy as np

        return np.array([0.2], np.float32)


class Vectorised(Single):
    name, title = "GuardedVectorEnv", "a vectorised Gymnasium environment"

    def guarded(self, equipment: Any) -> Any:
        from gymnasium.vector import SyncVectorEnv

        from forewarn.plugins.gym import GuardedVectorEnv
        from forewarn.plugins.gym.bridge import Car

        return GuardedVectorEnv(SyncVectorEnv([Car]), equipment)

    def action(self) -> Any:
        return super().action()[None]


class Parallel(Single):
    name, title = "GuardedParallelEnv", "a PettingZoo parallel environment"

    def guarded(self, equipment: Any) -> Any:
        from forewarn.plugins.gym import GuardedParallelEnv
        from forewarn.plugins.gym.bridge import Car

        class Cars:
            """One car, as PettingZoo has many."""

            agents = ("a",)

            def __init__(self) -> None:
                self.car = Car()

            def reset(self, seed: Any = None, options: Any = None) -> Any:
                return tuple({"a": each} for each in self.car.reset(seed=seed))

            def step(self, actions: Any) -> Any:
                return tuple({"a": each} for each in self.car.step(actions["a"]))

            def close(self) -> None:
                pass

        return GuardedParallelEnv(Cars(), lambda agent: equipment)

    def action(self) -> Any:
        return {"a": super().action()}
