"""The worlds of a household robot: the real AI2-THOR and the embedded household.

Each high-level action is followed by a frame. The two worlds differ only in the
controller.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame, Value
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import Example, Shape, Source, Thing
from forewarn.plugins.household import DOINGS, NEXT, ObjectSenses, SteppedHousehold
from forewarn.thor_bridge.act import ACTIONS
from forewarn.thor_bridge.household.actions import LocalController
from forewarn.thor_bridge.household.scenes import load_scenes
from forewarn.thor_bridge.household.world import PROFILES
from forewarn.thor_bridge.moves import facts_about, objects_in
from forewarn.thor_bridge.steps import VERBS, Controller, parse_step
from forewarn.thor_bridge.tasks import (
    EXAMPLE_TASK,
    Variation,
    find_task,
    task_book,
    vary,
)
from forewarn.thor_bridge.verbs import HighLevel
from forewarn.thor_bridge.wire import HOUSEHOLD, connect

PERIOD_S = 1.0
FIRST_SCENE = "Kitchen1"

SIGNALS = (
    "holding",
    *DOINGS,
    "agent_distance_moved",
    "metadata_age",
)
"""The signals in every frame, in addition to the object predicates."""

Profile = Literal["off", "real"]
Steps = Annotated[int, Field(ge=1, le=100_000)]


PREPARING = 5
"""The maximum number of attempts to prepare a scene, because actions may fail at
random.
"""


class HouseholdWorld(SteppedHousehold):
    """The embedded household simulator, which runs in this process.

    Args:
        task: The name of a task, which provides `scene`, `watch` and `prepare`.
        tasks: A suite file, or a folder with SafeAgentBench's files; by default the
            included suite.
        scene: The name of an included scene, or of a scene in the scene file.
        watch: The object predicates in each frame, in addition to those of the task.
        prepare: The steps that bring the scene into its initial state.
        vary: How much the initial state of each episode varies from the scene.
        scenes: A scene file, as written by `forewarn thor harvest`.
        failures: `real` if actions also fail at random, at the rates of the real
            AI2-THOR; otherwise `off`.
        longest_steps: The maximum number of steps.
        plan: Whether frames contain the next action that the robot announces.
    """

    actions = ACTIONS

    @staticmethod
    def example() -> Example:
        return Example(
            {"task": EXAMPLE_TASK, "longest_steps": 10},
            pilot="household-planner",
            substitute=Action("wait"),
            steps=8,
        )

    def __init__(
        self,
        *,
        task: str = "",
        tasks: Path | None = None,
        scene: str = "",
        watch: list[str] = [],  # noqa: B006 - only read; pydantic copies it
        prepare: list[str] = [],  # noqa: B006
        vary: Variation = Variation(),  # noqa: B008 - frozen
        scenes: Path | None = None,
        failures: Profile = "off",
        longest_steps: Steps = 40,
        plan: bool = False,
    ) -> None:
        self._spared: tuple[str, ...] = ()
        if task:
            known = find_task(task_book(tasks), task)
            scene = scene or known.scene
            watch = [*known.watch(), *facts_about(known.objects()), *watch]
            prepare = [*known.prepare, *prepare]
            self._spared = objects_in((), (known.goal, known.law))
        self._scene, self._varied, self._plan = scene or FIRST_SCENE, vary, plan
        self._scenes, self._failures = scenes, failures
        self._senses = ObjectSenses(watch)
        self._prepare = [parse_step(step) for step in prepare]
        self.longest_steps = longest_steps
        provides = (*self._senses.predicates, *SIGNALS, *([NEXT] if plan else []))
        self.source = Source("household", "household", provides, PERIOD_S)
        self._controller: Controller | None = None
        self._robot: HighLevel | None = None

    def _make(self, seed: int) -> Controller:
        return LocalController(
            self._scene,
            scenes=load_scenes(self._scenes),
            seed=seed,
            failures=PROFILES[self._failures],
        )

    def begin(self, seed: int) -> None:
        """Starts an episode: resets and then prepares the scene."""
        if self._controller is None:
            self._controller = self._make(seed)
        controller = self._controller
        for attempt in range(PREPARING):
            luck = seed + attempt * 2**32
            # Only the embedded household has a seed; Unity's physics has none.
            seeded = {"seed": luck} if self.source.embedded else {}
            controller.reset(self._scene, **seeded)
            vary(controller, self._varied, luck, self._spared)
            self._robot = HighLevel(controller)
            results = [self._robot.do(action) for action in self._prepare]
            failed = next((each for each in results if not each.done), None)
            if failed is None:
                break
        if failed is not None:
            raise InvalidInput(
                f"the scene {self._scene} could not be prepared: {failed.action}: "
                f"{failed.error or failed.message}"
            )
        self._moved_m = 0.0
        self._next: Value = None
        super().begin(seed)

    def move(self, action: Action | None) -> None:
        start = self._position()
        if action is None or action.name == "wait":
            self._controller_now().step("Pass")
        super().move(action)
        self._moved_m = math.dist(start, self._position())

    def do(self, action: Action) -> bool:
        said = action.arguments.get(NEXT)
        self._next = said if said in VERBS else None
        return self._ready().do(action).done

    def foresee(self, action: Action) -> Frame:
        """Returns the frame that an action would lead to, without carrying the action
        out.

        If the simulator runs in another process, the embedded household predicts the
        result from the state that the simulator reports.
        """
        robot = self._ready()
        other = copy.copy(self)
        other._controller = self._shadow(robot)
        other._robot = robot.copy(other._controller)
        return other.step(action)

    def _shadow(self, robot: HighLevel) -> LocalController:
        """Returns an embedded household in the simulator's current state."""
        controller = self._controller_now()
        if not isinstance(controller, LocalController):
            return LocalController.shadow(self.metadata, robot.reachable)
        shadow = controller.copy()
        # The guard must not foresee random failures.
        shadow.world.failures = PROFILES["off"]
        return shadow

    def halt(self) -> None:
        """Does nothing, because the world does not change between steps."""

    def close(self) -> None:
        super().close()
        if self._controller is not None:
            self._controller.stop()
        self._controller, self._robot = None, None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The current metadata in AI2-THOR's format, for goals and reports."""
        found: Mapping[str, Any] = self._controller_now().last_event.metadata
        return found

    def ground(self) -> list[Shape]:
        """Returns the floor for live views."""
        return floor(self.metadata)

    def things(self) -> list[Thing]:
        """Returns the robot and all objects in the room for live views."""
        return list(seen_from_above(self.metadata))

    def _ready(self) -> HighLevel:
        if self.over is not None or self._robot is None:
            raise InvalidInput(f"the world cannot step: {self.over}")
        return self._robot

    def _controller_now(self) -> Controller:
        if self._controller is None:
            raise InvalidInput(f"the world has no state to show: {self.over}")
        return self._controller

    def _position(self) -> tuple[float, float, float]:
        place = self.metadata["agent"]["position"]
        return place["x"], place["y"], place["z"]

    def values(self) -> dict[str, Value]:
        return {
            **self._senses.values(self.metadata),
            **self.doings(),
            "agent_distance_moved": self._moved_m,
            "metadata_age": 0.0,
            **({NEXT: self._next} if self._plan else {}),
        }


class ThorWorld(HouseholdWorld):
    """AI2-THOR through ai2thor's controller, with the real Unity build or the embedded
    household.

    Args:
        task: The name of a task, which provides `scene`, `watch` and `prepare`.
        tasks: A suite file, or a folder with SafeAgentBench's files; by default the
            included suite.
        scene: The name of one of the player's scenes.
        watch: The object predicates in each frame, in addition to those of the task.
        prepare: The steps that bring the scene into its initial state.
        vary: How much the initial state of each episode varies from the scene.
        player: `household`, `unity`, or the command line of a player.
        scenes: A scene file, which only the household uses.
        failures: `real` if the household's actions also fail at random; otherwise
            `off`.
        longest_steps: The maximum number of steps.
        start_timeout_s: The time limit for the player's first answer in seconds.
        action_timeout_s: The time limit for an action in seconds.
    """

    def __init__(
        self,
        *,
        task: str = "",
        tasks: Path | None = None,
        scene: str = "",
        watch: list[str] = [],  # noqa: B006 - only read; pydantic copies it
        prepare: list[str] = [],  # noqa: B006
        vary: Variation = Variation(),  # noqa: B008 - frozen
        player: str = HOUSEHOLD,
        scenes: Path | None = None,
        failures: Profile = "off",
        longest_steps: Steps = 40,
        start_timeout_s: Annotated[float, Field(gt=0)] = 20.0,
        action_timeout_s: Annotated[float, Field(gt=0)] = 10.0,
    ) -> None:
        super().__init__(
            task=task,
            tasks=tasks,
            scene=scene,
            watch=watch,
            prepare=prepare,
            vary=vary,
            longest_steps=longest_steps,
        )
        embedded = player == HOUSEHOLD
        self.source = replace(self.source, name="thor", embedded=embedded)
        self._settings: dict[str, Any] = {
            "player": player,
            "scenes": scenes,
            "failures": failures,
            "start_timeout_s": start_timeout_s,
            "action_timeout_s": action_timeout_s,
        }

    def _make(self, seed: int) -> Controller:
        return connect(self._scene, seed=seed, **self._settings)


_ROBOT_M = 0.4
_LARGE_M2 = 0.12
"""Objects that cover a larger area than this are displayed as furniture."""

_SEEN = {
    "isToggled": "on",
    "isOpen": "open",
    "isPickedUp": "held",
    "isBroken": "broken",
    "isFilledWithLiquid": "filled",
    "isCooked": "cooked",
    "isSliced": "sliced",
    "isDirty": "dirty",
}
"""The visible states of an object, and their display names."""

_GROUND = ("Floor",)


def floor(metadata: Mapping[str, Any]) -> list[Shape]:
    """Returns the area of the floor; if there is no floor, the area that the objects
    span.
    """
    objects = metadata["objects"]
    floors = [thing for thing in objects if thing["objectType"] in _GROUND]
    boxes = [box for thing in floors or objects if (box := _box(thing))]
    if not boxes:
        return []
    west, east = (
        min(b[0] - b[2] / 2 for b in boxes),
        max(b[0] + b[2] / 2 for b in boxes),
    )
    south = min(b[1] - b[3] / 2 for b in boxes)
    north = max(b[1] + b[3] / 2 for b in boxes)
    corners = ((west, south), (east, south), (east, north), (west, north))
    return [Shape("floor", corners)]


def seen_from_above(metadata: Mapping[str, Any]) -> Iterator[Thing]:
    """Yields the robot and every object with a bounding box, except the floor."""
    agent = metadata["agent"]
    at = agent["position"]
    yield Thing(
        "robot", "ego", at["x"], at["z"], agent["rotation"]["y"] % 360.0,
        _ROBOT_M, _ROBOT_M, top_m=10.0,
    )  # fmt: skip
    for thing in metadata["objects"]:
        box = _box(thing)
        if box is None or thing["objectType"] in _GROUND:
            continue
        x, y, wide, deep, top = box
        large = wide * deep >= _LARGE_M2
        # The heading is north, so the length is north-south and the width east-west.
        yield Thing(
            thing["objectId"], "furniture" if large else "object", x, y, 0.0, deep,
            wide, _state(thing), top, thing["objectType"],
        )  # fmt: skip


def _box(thing: Mapping[str, Any]) -> Sequence[float] | None:
    """Returns the centre, width, depth and top of an object's bounding box."""
    box = thing["axisAlignedBoundingBox"]
    if not box:
        return None
    center, size = box["center"], box["size"]
    top = center["y"] + size["y"] / 2
    return center["x"], center["z"], size["x"], size["z"], top


def _state(thing: Mapping[str, Any]) -> str:
    seen = [word for key, word in _SEEN.items() if thing[key]]
    if thing["temperature"] == "Hot":
        seen.append("hot")
    return ", ".join(seen)
