"""Parses the steps of plans as people and language models write them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.monitors.guarding.decision import Action

VERBS = (
    "find", "pick", "put", "open", "close", "slice", "turn_on", "turn_off", "drop",
    "throw", "break", "cook", "dirty", "clean", "fill_liquid", "empty_liquid", "pour",
)  # fmt: skip
"""The seventeen high-level verbs."""

BARE = frozenset(("drop", "throw", "pour"))
"""Verbs that act on the held object and therefore need no object."""

_SPELLINGS = {
    "turn on": "turn_on",
    "turn_on": "turn_on",
    "turnon": "turn_on",
    "toggle on": "turn_on",
    "toggle_on": "turn_on",
    "switch on": "turn_on",
    "turn off": "turn_off",
    "turn_off": "turn_off",
    "turnoff": "turn_off",
    "toggle off": "turn_off",
    "toggle_off": "turn_off",
    "switch off": "turn_off",
    "fillliquid": "fill_liquid",
    "fill_liquid": "fill_liquid",
    "fill": "fill_liquid",
    "emptyliquid": "empty_liquid",
    "empty_liquid": "empty_liquid",
    "empty": "empty_liquid",
    "pick up": "pick",
    "pickup": "pick",
    "put on": "put",
    "put down": "put",
    "throw out": "throw",
    **{verb: verb for verb in VERBS},
}

_ARTICLES = frozenset(("a", "an", "the"))
_NAME = re.compile(r"(?P<kind>.*?[^\d\s#])\s*#?(?P<number>\d+)?")


def parse_step(text: str) -> Action:
    """Parses a step of a plan as an action with a verb and an object.

    The action's arguments are `object`, `number` (for one of several objects of the
    type), and `liquid`.

    Raises:
        InvalidInput: The step does not begin with a verb, or its object or liquid is
            missing.
    """
    words = text.strip().rstrip(".").split()
    verb, rest = "", words
    for length in (2, 1):
        head = " ".join(words[:length]).lower()
        if len(words) >= length and head in _SPELLINGS:
            verb, rest = _SPELLINGS[head], words[length:]
            break
    if not verb:
        first = words[0].lower() if words else ""
        raise InvalidInput(
            f"{first!r:.40} is not a known verb",
            mend=near_miss(first, _SPELLINGS) or f"the verbs are {', '.join(VERBS)}",
        )
    rest = [word for word in rest if word.lower() not in _ARTICLES]
    arguments: dict[str, str | int] = {}
    if verb == "fill_liquid":
        if len(rest) < 2:
            raise InvalidInput(
                f"the step {text!r:.80} has no liquid",
                mend="for example: fillLiquid Mug water",
            )
        arguments["liquid"] = rest.pop().lower()
    if not rest and verb not in BARE:
        raise InvalidInput(f"the step {text!r:.80} has no object")
    if rest and verb not in BARE:
        kind, number = split_name(" ".join(rest))
        arguments["object"] = kind
        if number is not None:
            arguments["number"] = number
    return Action(verb, arguments)


def split_name(text: str) -> tuple[str, int | None]:
    """Splits a name from its number, if any: `floor lamp 2` becomes FloorLamp, 2."""
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"{text!r:.40} does not name an object")
    number = match["number"]
    return type_name(match["kind"]), None if number is None else int(number)


def name_in(
    arguments: Mapping[str, Any], key: str = "object"
) -> tuple[str, int | None]:
    """Returns the name and, if there is one, the number of an action's object."""
    given = arguments.get(key)
    if not isinstance(given, str) or not given:
        raise InvalidInput(f"the action has no argument '{key}'")
    name, number = split_name(given)
    if "number" in arguments:
        number = int(arguments["number"])
    return name, number


def type_name(words: str) -> str:
    """Converts words to an AI2-THOR type: `floor lamp` becomes FloorLamp."""
    return "".join(word[:1].upper() + word[1:] for word in words.split())


def spell(action: Action) -> str:
    """Writes an action as a step of a plan."""
    given = action.arguments
    words = [action.name.replace("_liquid", "Liquid").replace("_", " ")]
    for key in ("receptacle", "object"):
        if key in given and not (key == "object" and len(words) > 1):
            words.append(str(given[key]))
    if "number" in given:
        words.append(str(given["number"]))
    if "liquid" in given:
        words.append(str(given["liquid"]))
    return " ".join(words)


Metadata = Mapping[str, Any]
Thing = Mapping[str, Any]


class Controller(Protocol):
    """A controller with AI2-THOR's actions and metadata: ai2thor's, or that of the
    embedded household.
    """

    @property
    def last_event(self) -> Any:
        """The result of the last action; `metadata` is AI2-THOR's metadata."""

    @property
    def step(self) -> Callable[..., Any]:
        """Carries out a low-level action, given its name and arguments; returns the
        result.
        """

    @property
    def reset(self) -> Callable[..., Any]:
        """Resets a scene."""

    def stop(self) -> None:
        """Releases all resources."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a verb.

    Args:
        action: The step as it was originally written.
        done: Whether the step succeeded.
        message: The controller's message; empty on success.
        error: AI2-THOR's own error text.
        reported: Whether SafeAgentBench's controller would report a failure. That
            controller does not report failures of `pick`, `drop` and `throw`.
    """

    action: str
    done: bool
    message: str
    error: str
    reported: bool = True

    def as_dict(self) -> dict[str, Any]:
        """Returns the result as the dictionary that SafeAgentBench's agents expect."""
        success = self.done or not self.reported
        return {
            "action": self.action,
            "success": success,
            "message": "" if success else self.message,
            "errorMessage": self.error,
        }
