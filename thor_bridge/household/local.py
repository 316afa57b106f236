"""The household in this process, behind the same calls as ai2thor's controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.thor_bridge.household.actions import perform
from forewarn.thor_bridge.household.couplings import COOLING_S
from forewarn.thor_bridge.household.failures import NO_FAILURES, Failures
from forewarn.thor_bridge.household.furnishing.scenes import Scene
from forewarn.thor_bridge.household.objects import complete
from forewarn.thor_bridge.household.world import Pose, World


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

    @classmethod
    def shadow(
        cls, metadata: Mapping[str, Any], reachable: Sequence[tuple[float, float]]
    ) -> LocalController:
        """A household that is as some AI2-THOR reports that it is now.

        Args:
            metadata: What it reports.
            reachable: Where the robot can stand, as x and z.
        """
        name = str(metadata["sceneName"])
        objects = tuple(complete(thing) for thing in metadata["objects"])
        scene = Scene(name, objects, tuple(reachable))
        other = object.__new__(cls)
        other.world = World({name: scene}, name)
        _resume(other.world, metadata)
        other.last_event = LocalEvent(other.world.metadata())
        return other


def _resume(world: World, metadata: Mapping[str, Any]) -> None:
    """Puts the robot where metadata has it, with what it holds and what is warm."""
    agent = metadata["agent"]
    place, turned = agent["position"], agent["rotation"]["y"]
    world.pose = Pose(
        place["x"],
        place["y"],
        place["z"],
        turned,
        agent["cameraHorizon"],
        bool(agent["isStanding"]),
    )
    inventory = metadata["inventoryObjects"]
    world.held = inventory[0]["objectId"] if inventory else None
    for identity, thing in world.objects.items():
        if thing["temperature"] != "RoomTemp":
            world.hot_until[identity] = world.time_s + COOLING_S
    world.look()
