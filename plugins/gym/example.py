"""A car as a small environment, on which the world and the pilot are tried."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import MissingDependency

try:
    import gymnasium
except ImportError as error:
    raise MissingDependency("the example of an environment", "gym") from error

Seen = NDArray[np.float32]

_PERIOD_S, _FASTEST, _STRENGTH = 0.1, 40.0, 8.0


class Car(gymnasium.Env[Seen, Seen]):
    """It speeds up or brakes as told, and shows its speed in m/s."""

    observation_space = gymnasium.spaces.Box(0.0, _FASTEST, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        super().reset(seed=seed)
        self._speed = np.float32(self.np_random.uniform(5.0, 10.0))
        return self._seen(), {}

    def step(self, action: Seen) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        speed = self._speed + action[0] * _STRENGTH * _PERIOD_S
        self._speed = np.clip(speed, 0.0, _FASTEST)
        return self._seen(), float(self._speed), False, False, {}

    def _seen(self) -> Seen:
        return np.array([self._speed], np.float32)


def faster(observation: Seen) -> Seen:
    """A policy that speeds up, whatever comes."""
    return np.array([0.2], np.float32)


def slower(env: Car, action: list[float] | None, cap_kmh: float) -> list[float]:
    """The action that keeps a cap, from the one proposed."""
    room = cap_kmh / 3.6 - float(env._speed)
    most = max(-1.0, min(1.0, room / _STRENGTH / _PERIOD_S))
    return [most if action is None else min(action[0], most)]
