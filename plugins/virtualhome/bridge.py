"""The World: episodes of somebody who does things in a home of VirtualHome's."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from pathlib import Path
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
from forewarn.plugins.virtualhome.home import KNOWS, VERBS
from forewarn.plugins.virtualhome.programs import NEXT, STEPS_LEFT, the_program
from forewarn.plugins.virtualhome.scenes import load_plan

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
"""What every frame carries beside the object predicates."""

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
"""VirtualHome's verbs, and four ways to do nothing.

With a verb whoever acts may say how many steps of a plan come after this one, and what
comes next."""


class VirtualHomeWorld(SteppedHousehold):
    """A home, and somebody in it.

    Args:
        scene: `flat`, which is ours; the path of a graph, as VirtualHome writes it; or
            `task:27_2`, the graph that comes with virtualhome-eval for that task.
        programs: A file of programs, where one of them says the scene.
        program: Which of them, counted from 0.
        watch: The object predicates that frames shall carry.
        longest_steps: When time is up.
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
        """The frame that an action would lead to; homes are not changed by trying."""
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
        """How many there are, and for how long there have been any."""
        if not things:
            self._since[name] = self.steps
            return {name: 0.0, f"{name}_age": None}
        # What was left with the last action is there since that.
        age_s = (self.steps - self._since[name] - 1) * PERIOD_S
        return {name: float(len(things)), f"{name}_age": age_s}


def _known(watch: Iterable[str]) -> list[str]:
    """The predicates, all of which the graph tells."""
    for predicate in watch:
        name, _, about = predicate.partition("(")
        if name not in KNOWS or (name == "is_near" and "," in about):
            raise InvalidInput(
                f"VirtualHome does not tell {predicate!r:.80}",
                mend=near_miss(name, KNOWS) or f"it tells {', '.join(sorted(KNOWS))}",
            )
    return list(watch)
