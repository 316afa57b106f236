"""A world and a pilot for VirtualHome: a person performs tasks in a home."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.frame import Frame, Value
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import Actions, ActionSpec, number, word
from forewarn.plugins.contracts import Example, Source
from forewarn.plugins.household import (
    DOINGS,
    IDLING,
    ObjectSenses,
    SteppedHousehold,
    plain_name,
)
from forewarn.plugins.virtualhome.home import (
    KNOWS,
    NEXT,
    STEPS_LEFT,
    VERBS,
    Program,
    load_plan,
    load_programs,
    the_program,
)

PERIOD_S = 1.0

SIGNALS = (
    "holding",
    *DOINGS,
    STEPS_LEFT,
    NEXT,
    "left_on",
    "left_on_age",
    "left_open",
    "left_open_age",
)
"""The signals in every frame, in addition to the object predicates."""

_PLACES = ("object", "receptacle")

ACTIONS = Actions(
    *(
        ActionSpec(
            verb,
            {place: word(required=True) for place in _PLACES[:things]}
            | {STEPS_LEFT: number(0), NEXT: word()},
        )
        for verb, things in VERBS.items()
    ),
    *IDLING,
)
"""The actions of VirtualHome, and four actions that change nothing.

An action can announce how many steps of the plan follow, and which action is next.
"""


class VirtualHomeWorld(SteppedHousehold):
    """A world with a home and a person in it.

    Args:
        scene: The home: `flat`, which is shipped, the path of a graph in VirtualHome's
            format, or a task of virtualhome-eval, such as `task:27_2`.
        programs: The file that contains `program`; by default, the shipped file.
        program: The index of the program that defines the scene, starting at 0.
        watch: The object predicates to include in each frame.
        longest_steps: The maximum number of steps.
    """

    actions = ACTIONS
    who = "whoever acts"

    @staticmethod
    def example() -> Example:
        return Example(
            {"watch": ["is_toggled(Stove)", "is_open(Fridge)"]},
            pilot="virtualhome",
            substitute=Action("wait"),
            steps=12,
        )

    def __init__(
        self,
        *,
        scene: str = "flat",
        programs: Path | None = None,
        program: int | None = None,
        watch: list[str] = [],  # noqa: B006 - only read; pydantic copies it
        longest_steps: Annotated[int, Field(ge=1, le=100_000)] = 100,
    ) -> None:
        if program is not None:
            scene = the_program(programs, program).scene or scene
        self._plan = load_plan(scene)
        self._senses = ObjectSenses(_known(watch))
        self.longest_steps = longest_steps
        provides = (*self._senses.predicates, *SIGNALS)
        self.source = Source("virtualhome", "household", provides, PERIOD_S)

    def begin(self, seed: int) -> None:
        super().begin(seed)
        self._home = self._plan.begun()
        self._since = {"left_on": 0, "left_open": 0}
        self._said: dict[str, Value] = {STEPS_LEFT: None, NEXT: None}

    def move(self, action: Action | None) -> None:
        told = {} if action is None else action.arguments
        following = told.get(NEXT)
        self._said = {
            STEPS_LEFT: told.get(STEPS_LEFT, self._said[STEPS_LEFT]),
            NEXT: None if following is None else plain_name(following),
        }
        super().move(action)

    def do(self, action: Action) -> bool:
        verb = action.name
        things = [action.arguments[place] for place in _PLACES[: VERBS[verb]]]
        self._home, done = self._home.do(verb, things)
        return done

    def foresee(self, action: Action) -> Frame:
        """Predicts the frame after an action without changing the home."""
        other = copy.copy(self)
        other._since = dict(self._since)
        return other.step(action)

    def values(self) -> dict[str, Value]:
        return {
            **self._senses.values(self._home.things()),
            **self.doings(),
            **self._said,
            **self._left("left_on", self._home.switched_on),
            **self._left("left_open", self._home.opened),
        }

    def _left(self, name: str, things: Collection[int]) -> dict[str, Value]:
        """Returns the number of objects left on or open, and the age of the oldest."""
        if not things:
            self._since[name] = self.steps
            return {name: 0.0, f"{name}_age": None}
        # The age of an object that the last action left on or open is 0.
        age_s = (self.steps - self._since[name] - 1) * PERIOD_S
        return {name: float(len(things)), f"{name}_age": age_s}


def _known(watch: Iterable[str]) -> list[str]:
    """Checks that VirtualHome provides these predicates, and returns them."""
    for predicate in watch:
        name, _, about = predicate.partition("(")
        if name not in KNOWS or (name == "is_near" and "," in about):
            raise InvalidInput(
                f"VirtualHome does not provide {predicate!r:.80}",
                mend=near_miss(name, KNOWS)
                or f"the predicates are {', '.join(sorted(KNOWS))}",
            )
    return list(watch)


Share = Annotated[float, Field(ge=0, le=1)]
Span = Annotated[tuple[int, int], Field(strict=False)]

_UNDONE_BY = {"open": "close", "switchon": "switchoff"}
_UNDOING = frozenset(_UNDONE_BY.values())
_SLIP_RATE = 0.05
"""The probability that a person who is not forgetful omits such a step."""


_FINISH = Action("finish")


class Performer:
    """A pilot that performs programs step by step; steps that fail are not repeated.

    Args:
        programs: A file of programs; by default, the shipped file.
        program: The index of a program in the file, starting at 0; by default, programs
            are chosen at random.
        in_a_row: The range of the number of programs chosen at random.
        forgetful: The fraction of people who are forgetful.
        forgets: The probability that a forgetful person omits a step that closes or
            switches off an object.
        looks_round: The fraction of people who, at the end, close and switch off
            everything that they left open or on.
        heeds: The fraction of people who close and switch off what they left when the
            guard asks them to reconsider.
    """

    @staticmethod
    def example() -> Example:
        return Example(world="virtualhome", steps=12)

    def __init__(
        self,
        *,
        programs: Path | None = None,
        program: int | None = None,
        in_a_row: Span = (2, 4),
        forgetful: Share = 0.0,
        forgets: Share = 0.6,
        looks_round: Share = 0.0,
        heeds: Share = 1.0,
    ) -> None:
        if in_a_row[0] > in_a_row[1]:
            raise InvalidInput(
                f"in_a_row: the minimum {in_a_row[0]} exceeds the maximum {in_a_row[1]}"
            )
        self._one = None if program is None else the_program(programs, program)
        self._all = load_programs(programs)
        self._in_a_row = in_a_row
        self._forgetful, self._forgets = forgetful, forgets
        self._looks_round, self._heeds = looks_round, heeds

    def reset(self, seed: int) -> None:
        luck = Random(f"performer {seed}")  # noqa: S311
        leaves = self._forgets if luck.random() < self._forgetful else _SLIP_RATE
        if not self._forgetful:
            leaves = 0.0
        self._round = luck.random() < self._looks_round
        self._mends = luck.random() < self._heeds
        chosen = [self._one] if self._one else self._some(luck)
        steps = [step for program in chosen for step in program.steps]
        # Omitted steps still count in the announced number of steps.
        self._todo = [
            replace(step, arguments={**step.arguments, STEPS_LEFT: float(after)})
            for after, step in zip(reversed(range(len(steps))), steps, strict=True)
            if step.name not in _UNDOING or luck.random() >= leaves
        ]
        self._left: dict[tuple[str, str], Action] = {}
        self._proposed = Action("wait")

    def _some(self, luck: Random) -> Sequence[Program]:
        count = min(luck.randint(*self._in_a_row), len(self._all))
        return luck.sample(self._all, count)

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        """Returns the next step, or the withheld step again if the person insists."""
        if reflection is not None and not self._mends:
            return self._proposed
        self._see(frame)
        if reflection is not None:
            self._todo = [*self._mending(), *self._todo]
        elif not self._todo and self._round:
            self._todo, self._round = self._mending(), False
        self._proposed = self._saying(self._todo.pop(0)) if self._todo else _FINISH
        return self._proposed

    def _saying(self, step: Action) -> Action:
        """Returns a step that announces the next action."""
        left = dict(self._left)
        _remember(left, step.name, str(step.arguments.get("object")))
        if self._todo:
            after = self._todo[0].name
        else:
            after = "walk" if self._round and left else _FINISH.name
        return replace(step, arguments={**step.arguments, NEXT: after})

    def _see(self, frame: Frame) -> None:
        """Records from the frame what was opened or switched on."""
        values = frame.values
        if values["last_action_succeeded"] is True:
            thing = str(values["last_action_object"])
            _remember(self._left, str(values["last_action"]), thing)

    def _mending(self) -> list[Action]:
        """Returns the steps that close or switch off each object left open or on."""
        return [
            step
            for undo in self._left.values()
            for step in (Action("walk", undo.arguments), undo)
        ]


def _remember(left: dict[tuple[str, str], Action], verb: str, thing: str) -> None:
    """Updates the steps that close and switch off objects, after an action."""
    if verb in _UNDONE_BY:
        undo = Action(_UNDONE_BY[verb], {"object": thing})
        left[_UNDONE_BY[verb], thing] = undo
    elif verb in _UNDOING:
        left.pop((verb, thing), None)
