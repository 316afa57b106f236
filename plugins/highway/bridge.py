"""highway-env's roads as worlds: environments like any other, with shipped parts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from forewarn.abstractions.errors import MissingDependency
from forewarn.plugins.contracts import Example
from forewarn.plugins.gym.bridge import EnvPilot, EnvWorld

try:
    from forewarn.plugins.highway.driving import PERIOD_S, STOP, Driver, make, slower
    from forewarn.plugins.highway.sense import RoadSenses
except ImportError as error:
    raise MissingDependency("highway-env's roads", "highway") from error

Span = Annotated[tuple[float, float], Field(strict=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class HighwayWorld(EnvWorld):
    """A road of highway-env, with the ego's driver told what to do.

    Args:
        road: Which one.
        config: Changes to its configuration.
        rss: Whether RSS's margin is among the signals; needs the extra `rss`.
    """

    @staticmethod
    def example() -> Example:
        """A free road."""
        config = {"vehicles_count": 1, "duration": 30}
        return Example({"road": "highway", "config": config}, pilot="highway", steps=8)

    def __init__(
        self,
        *,
        road: Literal["highway", "merge", "roundabout", "intersection"],
        config: dict[str, Any] | None = None,
        rss: bool = False,
    ) -> None:
        def highway_env() -> Any:
            return make(road, **(config or {}))

        super().__init__(
            env=highway_env,
            vocabulary="driving",
            signals=RoadSenses(rss=rss),
            period_s=PERIOD_S,
            stop=STOP,
            shows="speed < 1 km/h or acceleration < -1 m/s²",
            slow=slower,
        )


class HighwayDriver(EnvPilot):
    """Somebody who drives there; see `Driver`."""

    @staticmethod
    def example() -> Example:
        return Example(world="highway", steps=8)

    def __init__(
        self,
        *,
        wants_kmh: Span = (80.0, 130.0),
        headway_s: Span = (0.6, 2.0),
        distracted: Share = 0.5,
        away_s: Span = (1.0, 4.0),
    ) -> None:
        driver = Driver(
            wants_kmh=wants_kmh,
            headway_s=headway_s,
            distracted=distracted,
            away_s=away_s,
        )
        super().__init__(policy=driver)
