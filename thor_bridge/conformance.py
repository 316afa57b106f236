"""How like the real AI2-THOR a household is: recorded plans, carried out again.

A recording is JSON Lines: `{"set", "scene_name", "steps": [{"input", "success"}]}`,
each step as a robot spelt it and whether it succeeded in the real AI2-THOR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import parse_json, read_lines
from forewarn.thor_bridge.household.furnishing.scenes import load_scenes
from forewarn.thor_bridge.household.local import LocalController
from forewarn.thor_bridge.steps.lowlevel import LowLevel
from forewarn.thor_bridge.steps.verbs import HighLevel
from forewarn.thor_bridge.wire import connect


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded run.

    Args:
        part: The set that it belongs to.
        scene: Where it happened.
        steps: What the robot did, and whether it succeeded.
    """

    part: str
    scene: str
    steps: tuple[tuple[str, bool], ...]


@dataclass(slots=True)
class Tally:
    """How far recorded and repeated outcomes agree."""

    steps: int = 0
    agree: int = 0
    trajectories: int = 0
    identical: int = 0

    def add(self, same: list[bool]) -> None:
        """Counts one run: for each step, whether the outcome was the recorded one."""
        self.steps += len(same)
        self.agree += sum(same)
        self.trajectories += 1
        self.identical += all(same)

    def as_dict(self) -> dict[str, Any]:
        """The counts, and the share of steps that agree; None of no steps."""
        return {
            "steps": self.steps,
            "agree": self.agree,
            "agreement": self.agree / self.steps if self.steps else None,
            "trajectories": self.trajectories,
            "identical": self.identical,
        }


@dataclass(slots=True)
class Conformance:
    """The tally of all recordings, and of each set."""

    total: Tally = field(default_factory=Tally)
    by_set: dict[str, Tally] = field(default_factory=dict)

    def add(self, recording: Recording, same: list[bool]) -> None:
        """Counts one run."""
        self.total.add(same)
        self.by_set.setdefault(recording.part, Tally()).add(same)

    def as_dict(self) -> dict[str, Any]:
        """As `forewarn thor replay --json` has it."""
        sets = {name: tally.as_dict() for name, tally in self.by_set.items()}
        return {**self.total.as_dict(), "by_set": sets}


def read_recordings(path: Path) -> Iterator[Recording]:
    """The recorded runs of a file."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        row = parse_json(line, str(path), place)
        try:
            steps = tuple((s["input"], s["success"]) for s in row["steps"])
            good = all(isinstance(t, str) and isinstance(d, bool) for t, d in steps)
            recording = Recording(str(row.get("set", "")), row["scene_name"], steps)
        except (AttributeError, KeyError, TypeError):
            good = False
        if not good:
            raise InvalidInput(
                "not a recorded run: it needs scene_name, and steps with input and"
                " success",
                source=str(path),
                place=place,
            )
        yield recording


def replay(
    outcomes: Path,
    scenes: Path | None,
    *,
    inside: bool = False,
    watched: Callable[[Iterable[Recording]], Iterable[Recording]] = iter,
) -> Conformance:
    """Carries out recorded runs again and counts where the outcomes agree.

    Args:
        outcomes: The recordings.
        scenes: The scenes that they happened in; our own if not given.
        inside: In this process, rather than through ai2thor's controller.
        watched: Hands the runs on, and may say how many there were.
    """
    recordings = list(read_recordings(outcomes))
    known = load_scenes(scenes)
    found = Conformance()
    controller: Any = None
    try:
        for recording in watched(recordings):
            scene = recording.scene
            if scene.removesuffix("_physics") not in known and scene not in known:
                raise InvalidInput(
                    f"no scene {scene!r:.60} among the scenes",
                    source=str(outcomes),
                    mend="--scenes FILE gives a file that has it",
                )
            if controller is None and inside:
                controller = LocalController(scene, scenes=known)
            elif controller is None:
                controller = connect(scene, scenes=scenes)
            controller.reset(scene)
            found.add(recording, repeat(controller, recording))
    finally:
        if controller is not None:
            controller.stop()
    return found


def repeat(controller: LowLevel, recording: Recording) -> list[bool]:
    """For each step of a run whether its outcome is the recorded one."""
    robot, same = HighLevel(controller), []
    for text, succeeded in recording.steps:
        same.append(_succeeds(robot, text) == succeeded)
    return same


def _succeeds(robot: HighLevel, text: str) -> bool:
    try:
        result: Mapping[str, Any] = robot.execute(text)
    except InvalidInput:
        return False  # a step that nobody can read is one that was not done
    return bool(result["success"])
