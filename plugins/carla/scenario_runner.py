"""Adapters for CARLA's ScenarioRunner and Leaderboard.

Neither is available from a package registry, so their classes are passed as arguments.
Any class with the published interface works. In ScenarioRunner's environment:

    GuardedAgent = guarded_agent(MyAgent, Guarding.load(model, policy))
    LawCriterion = law_criterion(Criterion)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.plugins.carla.guarded import PROVIDES, GuardedVehicle, Watching
from forewarn.plugins.loop.guarding import Guarding

HERO = "hero"

Find = Callable[[], tuple[Any, Any]]


def hero() -> tuple[Any, Any]:
    """Returns the world and the hero vehicle from ScenarioRunner's data provider."""
    provider = import_module(
        "srunner.scenariomanager.carla_data_provider"
    ).CarlaDataProvider
    world = provider.get_world()
    return world, provider.get_hero_actor()


def guarded_agent(agent: type, guarding: Guarding, find: Find = hero) -> type:
    """Returns a subclass of an agent class whose `run_step` is guarded.

    Args:
        agent: An `AutonomousAgent` of ScenarioRunner or the Leaderboard, or any other
            class with `run_step` and `destroy`.
        guarding: The configuration of the guard.
        find: Returns the world and the vehicle; called at the first step of the agent.
    """

    class GuardedAgent(agent):  # type: ignore[misc]
        _guarded: GuardedVehicle | None = None

        def run_step(self, *arguments: Any, **named: Any) -> Any:
            control = super().run_step(*arguments, **named)
            if self._guarded is None:
                world, ego = find()
                # No collision sensor: agents declare their sensors themselves.
                self._guarded = GuardedVehicle(world, ego, guarding, sensor=False)
            return self._guarded.filter(control)

        @property
        def guarded(self) -> GuardedVehicle | None:
            """The guarded vehicle; None before the first step."""
            return self._guarded

        def destroy(self) -> None:
            if self._guarded is not None:
                self._guarded.close()
                self._guarded = None
            super().destroy()

    GuardedAgent.__name__ = f"Guarded{agent.__name__}"
    return GuardedAgent


def law_criterion(criterion: type, find: Find = hero) -> type:
    """Returns a criterion class that reports violations of laws in the result table.

    Args:
        criterion: ScenarioRunner's `Criterion`, or a class with its interface.
        find: Returns the world and a vehicle. The vehicle is ignored, because the
            criterion has its own actor.
    """

    class LawCriterion(criterion):  # type: ignore[misc]
        """Fails if a law is violated; `actual_value` is the number of violations.

        Args:
            actor: The vehicle.
            laws: The laws to check, as returned by `find_laws`.
            period_s: The tick length in seconds.
        """

        def __init__(
            self,
            actor: Any,
            laws: Sequence[Law],
            period_s: float = 0.05,
            name: str = "LawCriterion",
            optional: bool = False,
            terminate_on_failure: bool = False,
        ) -> None:
            super().__init__(name, actor, optional, terminate_on_failure)
            lacking = {law.name: set(law.signals) - set(PROVIDES) for law in laws}
            self.not_applicable = {k: sorted(v) for k, v in lacking.items() if v}
            self._followed = [
                FollowedLaw(law, period_s)
                for law in laws
                if law.name not in self.not_applicable
            ]
            self._watching: Watching | None = None
            self._seen = -1
            self.success_value = self.actual_value = 0
            self.units = "violations"
            self.test_status = "SUCCESS"
            self.broken: list[tuple[str, float]] = []

        def update(self) -> Any:
            if self._watching is None:
                self._watching = Watching(find()[0], self.actor, sensor=False)
            frame = self._watching.frame()
            if frame.sequence != self._seen:
                self._seen = frame.sequence
                for law in self._followed:
                    for verdict in law.frame(frame):
                        if verdict.status == "violated":
                            self.broken.append((law.name, frame.time_s))
            self.actual_value = len(self.broken)
            if self.broken:
                self.test_status = "FAILURE"
            return self._status()

        def _status(self) -> Any:
            status = import_module("py_trees").common.Status
            fails = self.test_status == "FAILURE"
            ends = fails and getattr(self, "terminate_on_failure", False)
            return status.FAILURE if ends else status.RUNNING

        def terminate(self, new_status: Any) -> None:
            if self._watching is not None:
                self._watching.close()
                self._watching = None
            super().terminate(new_status)

    return LawCriterion
