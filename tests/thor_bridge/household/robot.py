"""A robot for tests: acts on an embedded world by type of object."""

from __future__ import annotations

from typing import Any

from forewarn.thor_bridge.household.actions import perform
from forewarn.thor_bridge.household.world import ActionResult, World


class Robot:
    """Acts on the first object of a type; everything is forced into view."""

    def __init__(self, scene: str = "Kitchen1", **settings: Any) -> None:
        self.world = World(scene=scene, **settings)

    def id(self, kind: str) -> str:
        for identity, thing in self.world.objects.items():
            if thing["objectType"] == kind:
                return identity
        raise AssertionError(f"no {kind} in {self.world.scene_name}")

    def __getitem__(self, kind: str) -> dict[str, Any]:
        return self.world.objects[self.id(kind)]

    def do(self, action: str, kind: str | None = None, **rest: Any) -> ActionResult:
        given: dict[str, Any] = {"action": action, "forceAction": True, **rest}
        if kind is not None:
            given["objectId"] = self.id(kind)
        return perform(self.world, given)

    def must(self, action: str, kind: str | None = None, **rest: Any) -> None:
        outcome = self.do(action, kind, **rest)
        assert outcome.success, f"{action} {kind}: {outcome.error}"

    def place(self, kind: str, receptacle: str) -> None:
        """Puts it there, from wherever, without the robot's hands."""
        self.world.move(self.id(kind), **self[receptacle]["position"])
        self.world.put_in(self.id(kind), self.id(receptacle))
        self.world.look()

    def face(self, kind: str) -> None:
        """Stands where the thing is in view."""
        place = self[kind]["position"]
        for spot in sorted(
            self.world.positions(),
            key=lambda p: (p["x"] - place["x"]) ** 2 + (p["z"] - place["z"]) ** 2,
        ):
            for rotation in range(0, 360, 45):
                for horizon in (0.0, 30.0, 60.0, -30.0):
                    self.must(
                        "TeleportFull",
                        None,
                        **spot,
                        rotation={"y": rotation},
                        horizon=horizon,
                        standing=True,
                    )
                    if self[kind]["visible"]:
                        return
        raise AssertionError(f"{kind} is never in view")

    def leave(self, kind: str) -> None:
        """Goes where the thing is not in view."""
        for spot in self.world.positions():
            self.must(
                "TeleportFull", None, **spot, rotation=0, horizon=0, standing=True
            )
            if not self[kind]["visible"]:
                return
        raise AssertionError(f"{kind} is always in view")
