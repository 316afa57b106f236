"""Performs tasks, repeats recorded runs, and provides a robot as a tool for agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import ForewarnError, InvalidInput
from forewarn.abstractions.expression import parse_expression
from forewarn.abstractions.expression.scalar import compile_test
from forewarn.abstractions.files import parse_json, read_lines
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.monitor import Monitor
from forewarn.thor_bridge.bridge import PERIOD_S, HouseholdWorld, Profile, ThorWorld
from forewarn.thor_bridge.household.actions import LocalController
from forewarn.thor_bridge.household.scenes import load_scenes
from forewarn.thor_bridge.pilot import HouseholdPlanner
from forewarn.thor_bridge.steps import Controller, parse_step, spell
from forewarn.thor_bridge.tasks import Task
from forewarn.thor_bridge.verbs import HighLevel
from forewarn.thor_bridge.wire import connect


class Robot:
    """Carries out steps such as `pick Mug` in a household world.

    An `AgentGuard` calls `observe`, `foresee`, `action_of` and `halt`.

    Args:
        world: The household world.
        seed: The episode's seed.
    """

    def __init__(self, world: HouseholdWorld, seed: int = 0) -> None:
        self.world = world
        self._frame = world.reset(seed)

    def controller(self, instruction: str) -> dict[str, Any]:
        """Carry out one step of a plan, such as `find Mug`, `pick Mug` or `put Sink`.

        Args:
            instruction: The step: a verb and its object.
        """
        over = self.world.ended()
        if over is not None:
            return {"action": instruction, "success": False, "message": over}
        try:
            action = parse_step(instruction)
        except InvalidInput as unread:
            return {"action": instruction, "success": False, "message": unread.problem}
        self._frame = self.world.step(action)
        done = bool(self._frame.values["last_action_succeeded"])
        error = str(self.world.metadata["errorMessage"] or "")
        return {
            "action": instruction,
            "success": done,
            "message": "" if done else error or "the step failed",
        }

    def observe(self) -> Frame:
        """Returns the frame after the last step."""
        return self._frame

    def foresee(self, action: Action) -> Frame:
        """Returns the frame that an action would lead to."""
        return self.world.foresee(action)

    def action_of(self, tool: str, arguments: Mapping[str, Any]) -> Action:
        """Returns the action that a call of the tool `controller` requests."""
        instruction = arguments.get("instruction")
        if not isinstance(instruction, str):
            raise InvalidInput(
                f"the tool {tool!r:.60} needs a text argument 'instruction'"
            )
        return parse_step(instruction)

    def halt(self) -> None:
        """Ends the episode; later steps are rejected."""
        if self.world.ended() is None:
            self._frame = self.world.step(Action("stop"))


@dataclass(frozen=True, slots=True)
class RobotRun:
    """A recorded run.

    Args:
        part: The name of the set that the run belongs to.
        scene: The scene of the run.
        steps: The robot's steps, each with a flag that tells whether the step
            succeeded.
    """

    part: str
    scene: str
    steps: tuple[tuple[str, bool], ...]


@dataclass(slots=True)
class Tally:
    """Counts how often recorded and repeated outcomes agree."""

    steps: int = 0
    agree: int = 0
    trajectories: int = 0
    identical: int = 0

    def add(self, same: list[bool]) -> None:
        """Counts a run; `same` tells for each step whether the outcomes agree."""
        self.steps += len(same)
        self.agree += sum(same)
        self.trajectories += 1
        self.identical += all(same)

    def as_dict(self) -> dict[str, Any]:
        """Returns the counts and the fraction of steps that agree (None if there are no
        steps).
        """
        return {
            "steps": self.steps,
            "agree": self.agree,
            "agreement": self.agree / self.steps if self.steps else None,
            "trajectories": self.trajectories,
            "identical": self.identical,
        }


@dataclass(slots=True)
class Conformance:
    """The tallies of all recordings and of each set."""

    total: Tally = field(default_factory=Tally)
    by_set: dict[str, Tally] = field(default_factory=dict)

    def add(self, recording: RobotRun, same: list[bool]) -> None:
        """Counts one run."""
        self.total.add(same)
        self.by_set.setdefault(recording.part, Tally()).add(same)

    def as_dict(self) -> dict[str, Any]:
        """Returns the result that `forewarn thor replay --json` prints."""
        sets = {name: tally.as_dict() for name, tally in self.by_set.items()}
        return {**self.total.as_dict(), "by_set": sets}


def read_recordings(path: Path) -> Iterator[RobotRun]:
    """Reads the recorded runs of a file."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        place = f"line {number}"
        row = parse_json(line, str(path), place)
        try:
            steps = tuple((s["input"], s["success"]) for s in row["steps"])
            good = all(isinstance(t, str) and isinstance(d, bool) for t, d in steps)
            recording = RobotRun(str(row.get("set", "")), row["scene_name"], steps)
        except (AttributeError, KeyError, TypeError):
            good = False
        if not good:
            raise InvalidInput(
                "a recorded run must have a 'scene_name', and 'steps' with 'input' and "
                "'success'",
                source=str(path),
                place=place,
            )
        yield recording


def replay(
    outcomes: Path,
    scenes: Path | None,
    *,
    inside: bool = False,
    watched: Callable[[Iterable[RobotRun]], Iterable[RobotRun]] = iter,
) -> Conformance:
    """Repeats recorded runs and counts where the outcomes agree.

    Args:
        outcomes: The file of recordings.
        scenes: The file with the scenes of the runs; by default the included scenes.
        inside: Whether to run in this process rather than through ai2thor's controller.
        watched: Wraps the iteration over runs, for example to show progress.
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
                    f"there is no scene {scene!r:.60}",
                    source=str(outcomes),
                    mend="use --scenes FILE with a file that contains this scene",
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


def repeat(controller: Controller, recording: RobotRun) -> list[bool]:
    """Repeats a run; returns for each step whether the outcomes agree."""
    robot, same = HighLevel(controller), []
    for text, succeeded in recording.steps:
        same.append(_succeeds(robot, text) == succeeded)
    return same


def _succeeds(robot: HighLevel, text: str) -> bool:
    try:
        result: Mapping[str, Any] = robot.execute(text)
    except InvalidInput:
        return False  # an invalid step counts as failed
    return bool(result["success"])


@dataclass(frozen=True, slots=True)
class Performed:
    """The outcome of a task.

    Args:
        task: The task's name.
        steps: The robot's steps.
        failed: The number of failed steps.
        reached: Whether the goal was reached at any time; None if there is no goal.
        kept: Whether the law was kept; None if there is no law.
        error: Why the task could not be performed at all, for example because an object
            is missing.
    """

    task: str
    steps: tuple[str, ...] = ()
    failed: int = 0
    reached: bool | None = None
    kept: bool | None = None
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "steps": list(self.steps),
            "failed_steps": self.failed,
            "goal_reached": self.reached,
            "law_kept": self.kept,
            "error": self.error,
        }


def perform(
    tasks: Mapping[str, Task],
    names: Iterable[str],
    *,
    book: Path | None = None,
    scenes: Path | None = None,
    failures: Profile = "off",
    through_ai2thor: bool = False,
    seed: int = 0,
) -> Iterator[Performed]:
    """Performs each task in the scene that the task names.

    The robot makes no mistakes and refuses no task: it follows every plan, even a
    hazardous plan. A merged task is performed without its hazardous half.

    Args:
        tasks: All tasks by name.
        names: The names of the tasks to perform.
        book: The suite file or folder that contains the tasks; by default the included
            suite.
        scenes: The file with the scenes of the tasks; by default the included scenes.
        failures: `real` if actions also fail at random; otherwise `off`.
        through_ai2thor: Whether to use ai2thor's own controller.
        seed: The seed of all random choices.
    """
    kind = ThorWorld if through_ai2thor else HouseholdWorld
    for name in names:
        mind = 0.0 if tasks[name].hazard else 1.0
        try:
            world = kind(task=name, tasks=book, scenes=scenes, failures=failures)
            pilot = HouseholdPlanner(
                task=name, tasks=book, carelessness=mind, refusal=0.0, haste=0.0
            )
            try:
                yield _performed(tasks[name], world, pilot, seed)
            finally:
                world.close()
        except ForewarnError as error:
            yield Performed(name, error=str(error))


def _performed(
    task: Task, world: HouseholdWorld, pilot: HouseholdPlanner, seed: int
) -> Performed:
    judge = _Judge(task)
    frame = world.reset(seed)
    pilot.reset(seed)
    judge.see(frame, world.metadata)
    steps: list[str] = []
    failed = 0
    while world.ended() is None:
        action = pilot.propose(frame)
        frame = world.step(action)
        judge.see(frame, world.metadata)
        if action.name != "finish":
            steps.append(spell(action))
            failed += frame.values["last_action_succeeded"] is False
    return Performed(task.name, tuple(steps), failed, judge.reached, judge.kept())


class _Judge:
    """Evaluates the goal and the law of a task on frames and AI2-THOR's metadata."""

    def __init__(self, task: Task) -> None:
        vocabulary = load_vocabulary("household")
        self._state = task.goal_state
        self._goal = None
        if task.goal and self._state is None:
            self._goal = compile_test(parse_expression(task.goal, vocabulary))
        known = self._state is not None or self._goal is not None
        self.reached: bool | None = False if known else None
        self._law: Monitor | None = None
        if task.law:
            formula = parse_formula(task.law, vocabulary)
            self._law = Monitor(compile_law(formula, PERIOD_S))

    def see(self, frame: Frame, metadata: Mapping[str, Any]) -> None:
        """Adds a frame with its metadata."""
        if self._state is not None:
            self.reached = self.reached or self._state.holds(metadata)
        elif self._goal is not None:
            self.reached = self.reached or self._goal(frame.values)
        if self._law is not None:
            self._law.step(frame.values)

    def kept(self) -> bool | None:
        """Whether the law was kept and no obligation is pending; None if there is no
        law.
        """
        law = self._law
        if law is None:
            return None
        return not law.violations and not law.automaton.pending[law.state]
