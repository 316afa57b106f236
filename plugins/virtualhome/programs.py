"""Programs of what is to be done, in VirtualHome's own notation, and files of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.files import read_json, read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.virtualhome.home import VERBS, kind_of, verb_of

STEPS_LEFT, NEXT = "steps_left", "next_action"
"""The arguments by which an action says how many steps of its plan come after it, and
which verb is next."""

OURS = Path(__file__).with_name("programs.yaml")

_LINE = re.compile(r"\[(\w+)\]((?:\s*<[^<>]{1,60}>(?:\s*\([\d.]{1,20}\))?)*)")
_THING = re.compile(r"<([^<>]+)>(?:\s*\((?:1\b|0*(\d+)))?")
_PLACES = ("object", "receptacle")


@dataclass(frozen=True, slots=True)
class Program:
    """What is to be done, step by step.

    Args:
        name: What for.
        steps: The actions.
        scene: Where, if not in the world's own scene.
    """

    name: str
    steps: tuple[Action, ...]
    scene: str = ""


class _Entry(Strict):
    name: str
    scene: str = ""
    steps: list[str | list[str | list[str]]] = Field(max_length=1000)


class _File(Strict):
    format: Literal["forewarn.household-programs/1"]
    programs: list[_Entry] = Field(min_length=1)


@cache
def load_programs(path: Path | None = None) -> tuple[Program, ...]:
    """The programs of a file, YAML or JSON; ours if none is given."""
    path = path or OURS
    source = str(path)
    plain = path.name.endswith((".json", ".json.gz"))
    file = validated(_File, read_json(path) if plain else read_yaml(path), source)
    return tuple(_program(entry, source) for entry in file.programs)


def the_program(path: Path | None, number: int) -> Program:
    """One of them, counted from 0."""
    programs = load_programs(path)
    if not 0 <= number < len(programs):
        raise InvalidInput(
            f"no program {number}; there are {len(programs)}, counted from 0",
            source=str(path or OURS),
        )
    return programs[number]


def _program(entry: _Entry, source: str) -> Program:
    try:
        steps = tuple(parse_step(step) for step in entry.steps)
    except InvalidInput as error:
        raise error.within(source, f"the program {entry.name!r:.60}") from None
    return Program(entry.name, steps, entry.scene)


def parse_step(step: str | Sequence[object]) -> Action:
    """A step as an action: `[PUTIN] <milk> (1) <fridge> (2)`, or verb and things.

    A first thing of its kind is the one at hand or nearest; a second is the second in
    the scene's order.

    Raises:
        InvalidInput: It is none of VirtualHome's.
    """
    if isinstance(step, str):
        line = _LINE.fullmatch(step.strip())
        if line is None:
            raise InvalidInput(
                f"{step!r:.80} is no step", mend="such as [OPEN] <fridge> (1)"
            )
        verb, things = verb_of(line[1]), _THING.findall(line[2])
    else:
        verb, things = _pair(step)
    if verb not in VERBS:
        raise InvalidInput(
            f"VirtualHome knows no verb {verb!r:.60}", mend=near_miss(verb, VERBS)
        )
    if len(things) != VERBS[verb]:
        raise InvalidInput(f"{verb} is about {VERBS[verb]} things, not {len(things)}")
    named = [f"{kind_of(name)}#{n}" if n else kind_of(name) for name, n in things]
    return Action(verb, dict(zip(_PLACES, named, strict=False)))


def _pair(step: Sequence[object]) -> tuple[str, list[tuple[str, str]]]:
    match step:
        case [str(verb), list(names)] if all(isinstance(name, str) for name in names):
            return verb_of(verb), [(str(name), "") for name in names]
    raise InvalidInput(f"{step!r:.80} is no step", mend="such as [OPEN, [fridge]]")
