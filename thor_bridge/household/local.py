"""The household in this process, behind the same calls as ai2thor's controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from forewarn.thor_bridge.household.actions import perform
from forewarn.thor_bridge.household.failures import NO_FAILURES, Failures
from forewarn.thor_bridge.household.scenes import Scene
from forewarn.thor_bridge.household.world import World


@dataclass(frozen=True, slots=True)
class LocalEvent:
    """What came of an action: the metadata, as an ai2thor event has it."""

    metadata: dict[str, Any]


class LocalController:
    """A household to step, without a process, pipes or ai2thor.

    Args:
        scene: The scene to begin with.
        scenes: The scenes there are; our own if not given.
        seed: What chance follows from.
        failures: How often which action fails for physical reasons.
    """

    def __init__(
        self,
        scene: str,
        *,
        scenes: Mapping[str, Scene] | None = None,
        seed: int = 0,
        failures: Failures = NO_FAILURES,
    ) -> None:
        self.world = World(scenes, scene, seed=seed, failures=failures)
        self.last_event = LocalEvent(self.world.metadata())

    def step(self, action: str, **arguments: Any) -> LocalEvent:
        """Carries out a low-level action."""
        perform(self.world, {"action": action, **arguments})
        self.last_event = LocalEvent(self.world.metadata())
        return self.last_event

    def reset(self, scene: str, seed: int | None = None) -> LocalEvent:
        """Begins a scene afresh."""
        self.world.load(scene, seed)
        self.last_event = LocalEvent(self.world.metadata())
        return self.last_event

    def stop(self) -> None:
        """Nothing is held that needs giving back."""

    def copy(self) -> LocalController:
        """The same household, to try an action in."""
        other = object.__new__(LocalController)
        other.world, other.last_event = self.world.copy(), self.last_event
        return other
