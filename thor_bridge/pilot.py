"""A planning robot with habits: it makes mistakes, takes shortcuts, and may refuse.

The robot can replace an LLM agent if none is available, but it does not model an LLM.
The robot's habits are probabilities in `habits.yaml`, on which all results with this
robot depend. When told to reconsider, a compliant robot searches for another plan that
keeps the law.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Annotated, Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_yaml
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import Example
from forewarn.plugins.household import NEXT, named
from forewarn.plugins.loop.reflection import BEGIN
from forewarn.thor_bridge.moves import Model, Move, atoms_of, canonical
from forewarn.thor_bridge.planning import (
    NOTHING,
    Ban,
    Condition,
    condition,
    search,
)
from forewarn.thor_bridge.steps import VERBS, parse_step
from forewarn.thor_bridge.tasks import EXAMPLE_TASK, Task, find_task, task_book

HABITS = Path(__file__).with_name("habits.yaml")

PATIENCE = 3
"""The number of failed or withheld attempts after which the robot gives up a part of
its task.
"""

Share = Annotated[float, Field(ge=0, le=1)]


class Habits(Strict):
    """The probabilities of the robot's traits, from 0 to 1.

    Args:
        format: The format of the file.
        carelessness: The probability that the robot ignores the law. A careless robot
            also performs the hazardous half of a task, and takes shortcuts that break
            the law.
        refusal: The probability that the robot refuses a task from the start.
        haste: The probability that the robot acts without finding the object first.
        compliance: The probability that the robot heeds warnings.
        resignation: The probability that a robot that heeds a warning gives up its task
            instead of finding another plan.
    """

    format: Literal["forewarn.habits/1"] = "forewarn.habits/1"
    carelessness: Share
    refusal: Share
    haste: Share
    compliance: Share
    resignation: Share


@cache
def frozen_habits() -> Habits:
    """Returns the fixed habits that are used in comparisons."""
    return validated(Habits, read_yaml(HABITS), str(HABITS))


@dataclass(slots=True)
class _Aim:
    """A goal to reach, or steps to follow if no goal is known."""

    goal: Condition | None = None
    steps: list[Action] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the robot knows about a task at the start of an episode."""

    task: Task
    model: Model
    goal: Condition | None
    law: Ban | None


@cache
def _known(name: str, tasks: Path | None) -> _Known:
    task = find_task(task_book(tasks), name)
    model = Model(task.objects(), atoms_of(task.goal, task.law))
    goal = condition(model, task.goal) if task.goal else None
    return _Known(task, model, goal, Ban(task.law, model.facts) if task.law else None)


class HouseholdPlanner:
    """A robot that plans its task from the facts that the frames show.

    The defaults of the habits are in `habits.yaml`.

    Args:
        task: The task's name.
        tasks: A suite file, or a folder with SafeAgentBench's files; by default the
            included suite.
        carelessness: See `Habits`.
        refusal: See `Habits`.
        haste: See `Habits`.
        compliance: See `Habits`.
        resignation: See `Habits`.
        says_next: Whether each action announces the next verb of the plan.
    """

    @staticmethod
    def example() -> Example:
        return Example({"task": EXAMPLE_TASK}, world="household", steps=8)

    def __init__(
        self,
        *,
        task: str,
        tasks: Path | None = None,
        carelessness: Share | None = None,
        refusal: Share | None = None,
        haste: Share | None = None,
        compliance: Share | None = None,
        resignation: Share | None = None,
        says_next: bool = False,
    ) -> None:
        self._says_next = says_next
        given = {
            "carelessness": carelessness,
            "refusal": refusal,
            "haste": haste,
            "compliance": compliance,
            "resignation": resignation,
        }
        update = {name: value for name, value in given.items() if value is not None}
        self.habits = frozen_habits().model_copy(update=update)
        self._known = _known(task, tasks)
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Starts an episode. The seed determines the robot's traits."""
        # Each trait is drawn independently, so that the probability of one trait does
        # not affect the others.
        habits = self.habits
        task = self._known.task.name
        self._luck = Random(f"household robot {task} {seed}")  # noqa: S311
        traits = [self._luck.random() for _ in range(4)]
        self._careless = traits[0] < habits.carelessness
        self._complies = traits[1] < habits.compliance
        self.rejected = traits[2] < habits.refusal
        self._agenda = [] if self.rejected else self._aims(hazard_first=traits[3] < 0.5)
        law = self._known.law
        self._bans = [law] if law is not None and not self._careless else []
        self._monitors = [0 for _ in self._bans]
        self._at: str | None = None
        self._state = 0
        self._doubted = 0
        self._plan: list[tuple[int, Move]] = []
        self._proposed: Action | None = None
        self._seen = -1
        self._tries: Counter[tuple[str, str]] = Counter()

    def _aims(self, *, hazard_first: bool) -> list[_Aim]:
        task, goal = self._known.task, self._known.goal
        wanted = (
            _Aim(goal=goal) if goal is not None else _Aim(steps=_parsed(task.steps))
        )
        if not task.safe:
            return [_Aim(steps=_parsed(task.steps))]
        if not task.hazard or not self._careless:
            return [wanted]
        hazard = _Aim(steps=_parsed(task.hazard))
        return [hazard, wanted] if hazard_first else [wanted, hazard]

    @property
    def found(self) -> str | None:
        """The object that the robot last went to; None if there is none."""
        return self._at

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        """Returns the next step of the plan; the robot replans if the state is
        unexpected.
        """
        if frame.sequence != self._seen:
            self._see(frame)
        if reflection is not None and self._complies:
            self._heed(reflection)
        action = self._next()
        self._proposed = action
        says = self._says_next and action.name in VERBS
        following = self._following(action) if says else None
        if following is None:
            return action
        return Action(action.name, {**action.arguments, NEXT: following})

    # -- seeing

    def _see(self, frame: Frame) -> None:
        """Reads the frame, and the outcome of the last proposal."""
        self._seen = frame.sequence
        proposed, values = self._proposed, frame.values
        if proposed is not None:
            done = (values["last_action"], values["last_action_object"])
            executed = done == (proposed.name, named(proposed))
            if executed and values["last_action_succeeded"]:
                self._succeeded(proposed)
            else:
                self._plan.clear()
                if executed:
                    self._doubt(proposed)
                self._tried(proposed)
        self._state = self._known.model.state(values, self._at) & ~self._doubted
        for i, ban in enumerate(self._bans):
            after = ban.after(self._monitors[i], self._state)
            self._monitors[i] = 0 if after is None else after

    def _succeeded(self, action: Action) -> None:
        if action.name != "find":
            self._doubted = 0
        done = canonical(action)
        if action.name == "find":
            self._at = str(done.arguments["object"])
        aim = self._agenda[0] if self._agenda else None
        if aim is not None and aim.steps and aim.goal is None:
            ahead = [canonical(step) for step in aim.steps[:2]]
            if done in ahead:
                del aim.steps[: ahead.index(done) + 1]
            if not aim.steps:
                del self._agenda[0]

    def _doubt(self, action: Action) -> None:
        """After a failure, makes the robot find the object again and assume that it is
        closed.
        """
        self._at = None
        name = str(canonical(action).arguments.get("object", ""))
        if action.name == "put":
            self._doubted = self._known.model.facts.get(f"is_open({name})", 0)

    def _tried(self, action: Action) -> None:
        """Counts failed and withheld actions, and gives up after too many."""
        about = action.name, str(named(action))
        self._tries[about] += 1
        if self._tries[about] >= PATIENCE:
            self._leave()

    def _leave(self) -> None:
        """Gives up the current part of the task and continues with the rest."""
        self._tries.clear()
        self._doubted = 0
        self._plan.clear()
        del self._agenda[:1]

    # -- reconsidering

    def _heed(self, reflection: str) -> None:
        """Adopts the laws of a reflect prompt, or gives up."""
        self._plan.clear()
        if self._luck.random() < self.habits.resignation:
            self._agenda.clear()
            return
        for text in _rules(reflection):
            ban = Ban(text, self._known.model.facts)
            if all(known.text != text for known in self._bans):
                self._bans.append(ban)
                after = ban.after(0, self._state)
                self._monitors.append(0 if after is None else after)

    # -- deciding

    def _next(self) -> Action:
        owing = self._settle()
        if owing is not None:
            return owing
        while self._agenda:
            aim = self._agenda[0]
            action = self._toward(aim.goal) if aim.goal else self._step(aim.steps)
            if action is not None:
                return action
            if aim.goal is None or aim.goal.holds(self._state) or not aim.steps:
                self._leave()
            aim.goal = None
        return Action("finish")

    def _following(self, action: Action) -> str | None:
        """Returns the verb that follows an action in the plan; None if there is
        none.
        """
        if self._plan:
            return self._plan[0][1].action.name
        steps = self._agenda[0].steps if self._agenda else []
        ahead = [step.name for step in steps]
        if ahead[:1] == [action.name]:
            del ahead[0]
        return ahead[0] if ahead else None

    def _settle(self) -> Action | None:
        """Returns the next action that helps to meet pending obligations, if there are
        any.
        """
        if not any(map(Ban.owes, self._bans, self._monitors)):
            return None
        return self._toward(NOTHING)

    def _toward(self, goal: Condition) -> Action | None:
        """Returns the next action towards a goal; None if the goal is reached or
        unreachable.
        """
        if goal.holds(self._state) and not any(
            map(Ban.owes, self._bans, self._monitors)
        ):
            return None
        if not self._plan or self._plan[0][0] != self._state:
            moves = search(
                self._known.model, self._state, goal, self._bans, self._monitors
            )
            self._plan = list(_expected(self._state, moves or []))
        if not self._plan:
            return None
        first = self._plan.pop(0)[1]
        hasty = self._luck.random() < self.habits.haste
        if hasty and first.action.name == "find" and self._plan:
            return self._plan[0][1].action
        return first.action

    def _step(self, steps: Sequence[Action]) -> Action | None:
        """Returns the next step, or an action that helps to make that step possible."""
        if not steps:
            return None
        moves = self._known.model.find(steps[0])
        if not moves:
            return steps[0]
        possible = [move for move in moves if move.possible(self._state)]
        if steps[0].arguments.get("number", 1) != 1:
            # The facts do not distinguish two objects of the same type.
            possible = moves
        if not possible:
            return self._toward(Condition.possible(moves, self._known.model.facts))
        if not self._allowed(possible[0]):
            return None
        hasty = self._luck.random() < self.habits.haste
        if hasty and steps[0].name == "find" and len(steps) > 1:
            return steps[1]
        return steps[0]

    def _allowed(self, move: Move) -> bool:
        then = move.after(self._state)
        pairs = zip(self._bans, self._monitors, strict=True)
        return all(ban.after(monitor, then) is not None for ban, monitor in pairs)


def _parsed(steps: Sequence[str]) -> list[Action]:
    """Parses steps as actions on known types. A step without a number refers to the
    first object of its type.
    """
    found: list[Action] = []
    for step in steps:
        try:
            action = parse_step(step)
        except InvalidInput:
            continue  # SafeAgentBench has steps without an object
        known = canonical(action)
        given = {**action.arguments, **known.arguments}
        if "number" in action.arguments:
            given["number"] = action.arguments["number"]
        found.append(Action(action.name, given))
    return found


def _expected(state: int, moves: Sequence[Move]) -> Iterator[tuple[int, Move]]:
    """Yields the moves, each with the state before the move."""
    for move in moves:
        yield state, move
        state = move.after(state)


def _rules(reflection: str) -> Iterator[str]:
    """Yields the laws that a reflect prompt states. Laws that are quoted as data are
    ignored.
    """
    for line in reflection.split(BEGIN)[0].splitlines():
        head, _, text = line.partition(": ")
        while head == "Rule" and text:
            try:
                atoms_of(text)
            except InvalidInput:
                _, _, text = text.partition(": ")
                continue
            yield text
            break


__all__ = ["HABITS", "Habits", "HouseholdPlanner", "frozen_habits"]
