"""MetaDrive roads as worlds, with MetaDrive's driver models and commands for the ego.

Each seed has its own map and traffic. While the driver is attentive, the ego follows
MetaDrive's IDM model or the PPO policy that MetaDrive's authors trained. While the
driver is inattentive, the steering and the accelerator are constant.
"""

from __future__ import annotations

import gc
import logging
from multiprocessing import current_process
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.plugins.contracts import Example
from forewarn.plugins.driving.drivers import (
    BRAKE,
    CAP,
    GREATEST,
    HEADWAY,
    LEAST,
    LOOKS,
    MOST,
    PERIOD_S,
    STOP,
    WANTS,
    Driver,
    DriverWorld,
    Share,
    Span,
)
from forewarn.plugins.loop.alerts import LOGGER

try:
    import gymnasium
    from metadrive import MetaDriveEnv
    from metadrive.engine.asset_loader import AssetLoader
    from metadrive.engine.base_engine import BaseEngine
    from metadrive.engine.engine_utils import (
        close_engine,
        get_global_config,
    )
    from metadrive.examples.ppo_expert.numpy_expert import expert
    from metadrive.obs.observation_base import DummyObservation
    from metadrive.policy.idm_policy import IDMPolicy
except ImportError as error:
    raise MissingDependency("MetaDrive", "metadrive") from error

from forewarn.plugins.metadrive.sense import MetaDriveSenses

_BEFORE = [*STOP[:CAP], *GREATEST[CAP:], 0.0, 0.0]
"""The command for the ego before its first action."""

_STEP_S = 0.1
_RESPONSE_S = 0.5  # time constant of the response to a speed cap
_MIN_SPEED_KMH = 1.0  # minimum, because the model divides by the desired speed
_SWAY_S = 0.6  # time constant of steering errors

EXPERT, SWAY = range(5, 7)
"""The additional indices of an action.

The components are whether the expert policy drives (0 or 1), and the steering error as
a fraction of the full range.
"""

SPACE = gymnasium.spaces.Box(
    np.array([*LEAST, 0.0, -1.0]), np.array([*GREATEST, 1.0, 1.0]), dtype=np.float64
)

_LOOKS_ONLY = {
    "log_level": logging.CRITICAL,
    "store_map": False,
    # Observations are not needed, because signals are computed from the simulation.
    "agent_observation": DummyObservation,
}


def _without_pictures() -> None:
    """Replaces the download of MetaDrive's textures, because nothing is rendered."""


_TELLS = ("MainProcess", "SpawnProcess-1")
"""The processes that report missing assets: the main one or, if it only starts workers,
the first worker.
"""

if not Path(AssetLoader.asset_path).exists():
    BaseEngine.try_pull_asset = staticmethod(_without_pictures)
    if current_process().name in _TELLS:
        logging.getLogger(LOGGER).warning(
            "MetaDrive's assets are not installed, so nothing is drawn;"
            " `python -m metadrive.pull_asset` downloads them"
        )


# MetaDrive runs the garbage collector twice whenever an engine is closed. Exclude the
# modules imported so far, whose traversal would take a fifth of a run's time.
gc.freeze()


class AnySeed(MetaDriveEnv):
    """A MetaDrive environment that accepts any seed, not only a fixed range."""

    def _reset_global_seed(self, force_seed: int | None = None) -> None:
        self.config["start_seed"] = force_seed
        self.engine.map_manager.maps = {force_seed: None}
        self.seed(force_seed)


class Road(gymnasium.Env[Any, Any]):
    """A MetaDrive environment in which the ego follows commands.

    A process has only one engine, which belongs to the world that was reset last. Each
    episode starts a new engine, because vehicles of earlier episodes would otherwise
    reappear.

    Args:
        config: Changes to the configuration of MetaDrive.
    """

    action_space = SPACE

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = {**_LOOKS_ONLY, **config}
        self.inside: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Any:
        close_engine()
        self.inside = AnySeed(dict(self._config))
        seen = self.inside.reset(seed=seed)
        self._idm = IDMPolicy(self.inside.agent, seed)
        self._kept = 0.0, 0.0
        self.told = np.array(_BEFORE)
        return seen

    def step(self, action: NDArray[Any]) -> Any:
        if not self._has_engine():
            raise InvalidInput(
                "another MetaDrive world in this process has taken over the engine",
                mend="use one MetaDrive world at a time in a process",
            )
        self.told = action
        for _ in range(round(PERIOD_S / _STEP_S)):
            seen = self.inside.step(self._turned(action))
            if seen[2] or seen[3]:
                break
        return seen

    def close(self) -> None:
        if self.inside is not None and self._has_engine():
            close_engine()

    def _has_engine(self) -> bool:
        return bool(get_global_config() is self.inside.config)

    def _turned(self, told: NDArray[Any]) -> list[float]:
        """Returns the steering and the pedals for a command, each from -1 to 1."""
        ego = self.inside.agent
        if told[LOOKS] >= 0.5:
            self._kept = wheel, pedal = self._means(ego, told)
        else:
            wheel, pedal = self._kept[0], max(0.0, self._kept[1])
            self._idm.routing_target_lane = None
        room = (float(told[CAP]) - float(ego.speed)) / _RESPONSE_S
        pedal = min(pedal, room / BRAKE, float(told[MOST]) / BRAKE)
        return [float(np.clip(each, -1, 1)) for each in (wheel + told[SWAY], pedal)]

    def _means(self, ego: Any, told: NDArray[Any]) -> tuple[float, float]:
        if told[EXPERT] >= 0.5:
            self._idm.routing_target_lane = None
            wheel, pedal = expert(ego, deterministic=True)
        else:
            self._idm.NORMAL_SPEED = max(_MIN_SPEED_KMH, float(told[WANTS]) * 3.6)
            # MetaDrive multiplies this time in seconds by a speed in km/h.
            self._idm.TIME_WANTED = float(told[HEADWAY]) / 3.6
            wheel, pedal = self._idm.act()
        return float(wheel), float(pedal)


class MetaDriveWorld(DriverWorld):
    """A world with MetaDrive roads, in which the pilot sends commands to the ego's
    driver.

    Each seed has its own map.

    Args:
        config: Changes to the configuration of MetaDrive, such as `map` (the number or
            the sequence of road blocks) and `traffic_density`.
        rss: Whether to add the longitudinal RSS margin.
    """

    @staticmethod
    def example() -> Example:
        """Returns an example with a short road without traffic."""
        config = {"map": "S", "traffic_density": 0.0}
        return Example({"config": config}, pilot="metadrive", steps=8)

    def __init__(
        self, *, config: dict[str, Any] | None = None, rss: bool = False
    ) -> None:
        def metadrive() -> Road:
            return Road(config or {})

        senses = MetaDriveSenses(rss=rss)
        super().__init__(metadrive, senses, lambda env: env.told, (0.0, 0.0))


class MetaDriveDriver(Driver):
    """A pilot that can use MetaDrive's expert policy, and whose steering has random
    errors.

    Args:
        drives: The model that drives while the driver is attentive.
        sway: The standard deviation of the steering error as a fraction of the full
            range.
        wants_kmh: The range of desired speeds in km/h.
        headway_s: The range of time headways in seconds.
        distracted: The probability that a driver is sometimes inattentive.
        away_s: The range of durations of a lapse of attention, in seconds.
    """

    @staticmethod
    def example() -> Example:
        return Example(world="metadrive", steps=8)

    def __init__(
        self,
        *,
        drives: Literal["idm", "expert"] = "idm",
        sway: Annotated[float, Field(ge=0, le=1)] = 0.0,
        wants_kmh: Span = (40.0, 70.0),
        headway_s: Span = (0.6, 2.0),
        distracted: Share = 0.0,
        away_s: Span = (1.0, 4.0),
    ) -> None:
        super().__init__(
            wants_kmh=wants_kmh,
            headway_s=headway_s,
            distracted=distracted,
            away_s=away_s,
        )
        self._expert, self._sways = float(drives == "expert"), sway

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self._strays, self._sway = Random(f"metadrive hand {seed}"), 0.0

    def command(self) -> list[float]:
        kept = float(np.exp(-PERIOD_S / _SWAY_S))
        new = self._strays.gauss(0.0, self._sways) * (1.0 - kept**2) ** 0.5
        self._sway = max(-1.0, min(1.0, self._sway * kept + new))
        return [*super().command(), self._expert, self._sway]
