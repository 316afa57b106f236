"""The actions that a world accepts, with their arguments.

A world declares its actions once, and rejects all others. Only `Actions.check`
validates actions; the `step` of a world and actuators need no checks of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.frame import is_number
from forewarn.monitors.guarding.decision import Action

CAP = "speed_cap_kmh"
"""The argument that limits a car's speed."""


_SMALL = 5.0


class InvalidAction(InvalidInput):
    """The world does not accept an action."""


@checked
@dataclass(frozen=True, slots=True)
class Argument:
    """The allowed values of an argument; None means that the argument is omitted.

    Args:
        type: The type of the argument: a number, a word, a Boolean (`switch`), a sample
            of the world's action space, or any value.
        low: The minimum of a number.
        high: The maximum of a number.
        choices: The allowed words; if empty, any word is allowed.
        required: Whether the argument is required.
        unit: The unit of a number.
    """

    type: Literal["number", "word", "switch", "sample", "any"]
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    required: bool = False
    unit: str = ""

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidInput(
                f"the minimum {self.low:g} is above the maximum {self.high:g}",
                source="Argument",
                mend="write number(low, high)",
            )

    def lack(self, value: object) -> str:
        """Returns the reason why a value is invalid; empty if it is valid."""
        if value is None:
            return "missing" if self.required else ""
        if self.type == "any":
            return ""
        if self.type == "switch":
            return "" if isinstance(value, bool) else "neither true nor false"
        if self.type == "word":
            if not isinstance(value, str):
                return "no word"
            fits = not self.choices or value in self.choices
            return "" if fits else f"none of {', '.join(self.choices)}"
        if not is_number(value):
            return "not a number"
        if not self.low <= value <= self.high:
            # NaN also fails this comparison.
            return f"not a number from {self.low:g} to {self.high:g}"
        return ""

    def some(self, luck: Random) -> float | str | bool:
        """Returns a random valid value, which is small if possible."""
        if self.type == "switch":
            return luck.random() < 0.5
        if self.type == "word":
            return luck.choice(self.choices or ("something",))
        low, high = max(self.low, -_SMALL), min(self.high, _SMALL)
        return luck.uniform(low, high) if low < high else self.low


@checked
def number(
    low: float = -math.inf,
    high: float = math.inf,
    unit: str = "",
    *,
    required: bool = False,
) -> Argument:
    """Declares an argument that is a number from `low` to `high`."""
    return Argument("number", low, high, required=required, unit=unit)


@checked
def word(*choices: str, required: bool = False) -> Argument:
    """Declares a text argument, which must be one of `choices` if there are any."""
    return Argument("word", choices=choices, required=required)


@checked
def switch() -> Argument:
    """Declares an argument that is true or false."""
    return Argument("switch")


@checked
@dataclass(frozen=True, slots=True)
class ActionSpec:
    """Declares an action: its name, and the allowed values of its arguments by name."""

    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    def some(self, luck: Random) -> Action:
        """Returns a random valid action; optional arguments are sometimes omitted."""
        given = {
            name: argument.some(luck)
            for name, argument in self.arguments.items()
            if argument.required or luck.random() < 0.5
        }
        return Action(self.name, given)


@checked
class Actions:
    """The actions that a world accepts; None (do nothing) is always accepted.

    Args:
        specs: The declarations of the actions.
    """

    def __init__(self, *specs: ActionSpec) -> None:
        self._specs = {spec.name: spec for spec in specs}

    def __iter__(self) -> Iterator[ActionSpec]:
        return iter(self._specs.values())

    def __contains__(self, name: object) -> bool:
        return name in self._specs

    def check(self, action: Action | None) -> None:
        """Checks that the world accepts an action.

        Raises:
            InvalidAction: The world does not accept the action.
        """
        if action is None:
            return
        spec = self._specs.get(action.name)
        if spec is None:
            hint = near_miss(action.name, self._specs)
            raise InvalidAction(
                f"the world has no action {action.name!r:.60}",
                mend=hint or f"the actions are {', '.join(self._specs)}",
            )
        for name, value in action.arguments.items():
            if name not in spec.arguments:
                raise InvalidAction(
                    f"the action {spec.name} has no argument {name!r:.60}",
                    mend=near_miss(name, spec.arguments),
                )
            if lack := spec.arguments[name].lack(value):
                raise InvalidAction(f"{spec.name}: {name} is {value!r:.60}, {lack}")
        for name, argument in spec.arguments.items():
            if argument.required and name not in action.arguments:
                raise InvalidAction(f"{spec.name}: {name} is missing")
