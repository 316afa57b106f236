"""Scenario files: world, pilot, laws, abstraction, randomness and end, in YAML."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from forewarn.abstractions.abstraction import Abstraction, load_abstraction
from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.files import inside, parse_yaml, read_text
from forewarn.abstractions.schema import Strict, validated
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.scenarios.draws import Draw, Plain, draw_all, filled

FORMAT = "forewarn.scenario/1"
SUFFIX = ".yaml"

Settings = Mapping[str, Any]


class InvalidScenario(InvalidInput):
    """A scenario file that is malformed or contradicts itself."""


Span = Annotated[tuple[float, float], Field(strict=False)]


class Plug(Strict):
    """A world, pilot or actuator by its registered name, with its settings."""

    name: str
    settings: dict[str, Any] = {}


class End(Strict):
    """When an episode ends, besides when its world says so."""

    max_time_s: float = Field(gt=0, le=86_400)
    on_violation: Literal["continue", "stop"] = "continue"


class _ScenarioFile(Strict):
    format: Literal["forewarn.scenario/1"]
    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    title: str
    description: str = ""
    world: Plug
    pilot: Plug
    actuator: Plug | None = None
    laws: list[str] = Field(min_length=1)
    abstraction: str | dict[str, Any]
    horizon_s: float = Field(default=3.0, gt=0)
    draws: dict[str, Draw] = {}
    end: End
    expected_base_rate: dict[str, Span] = {}


@dataclass(frozen=True)
class Scenario:
    """A scenario, checked and ready to run.

    Args:
        name: How it is called on the command line.
        title: One line for people.
        description: What happens in it and what it is for.
        world: Where it happens.
        pilot: What drives.
        actuator: What carries out decisions; None: the world's own.
        laws: The laws that are watched, parts by themselves.
        abstraction: What the model is learned over.
        horizon_s: H of the guard's risk.
        draws: What is random.
        end: When an episode is over.
        expected_base_rate: How often each law is broken unguarded, from and to.
        text: The file's text.
        source: The file's name.
    """

    name: str
    title: str
    description: str
    world: Plug
    pilot: Plug
    actuator: Plug | None
    laws: tuple[Law, ...]
    abstraction: Abstraction
    horizon_s: float
    draws: Mapping[str, Draw]
    end: End
    expected_base_rate: Mapping[str, tuple[float, float]]
    text: str
    source: str

    @cached_property
    def digest(self) -> str:
        """Of the text and the abstraction: what episodes of it have in common."""
        content = f"{self.text}\n{self.abstraction.fingerprint()}"
        return hashlib.sha256(content.encode()).hexdigest()

    def drawn(self, seed: int) -> dict[str, Plain]:
        """What is random in the episode of that seed."""
        return draw_all(self.draws, seed)

    def settings(self, plug: Plug, seed: int) -> dict[str, Any]:
        """A plug's settings in the episode of that seed."""
        drawn = self.drawn(seed)
        settings: dict[str, Any] = filled(plug.settings, drawn, self.source, plug.name)
        return settings


def parse_scenario(text: str, source: str, folder: Path) -> Scenario:
    """The scenario that a file's text describes.

    Args:
        text: The YAML.
        source: The file's name, for errors.
        folder: Where files that it names are looked for.
    """
    file = validated(_ScenarioFile, parse_yaml(text, source), source, InvalidScenario)
    if isinstance(file.abstraction, str):
        abstraction = load_abstraction(inside(folder, file.abstraction, source))
    else:
        abstraction = Abstraction.from_dict(
            file.abstraction, f"{source}: abstraction", folder=folder
        )
    laws: list[Law] = []
    for entry in file.laws:
        try:
            found = find_laws(entry, vocabulary=abstraction.vocabulary)
        except InvalidInput as error:
            raise error.within(source, "laws") from None
        laws += [part for law in found for part in law.parts or (law,)]
    names = [law.name for law in laws]
    for name in names:
        if names.count(name) > 1:
            raise InvalidScenario(
                f"the law {name!r:.80} stands twice", source=source, place="laws"
            )
    for name in file.expected_base_rate:
        if name not in names:
            raise InvalidScenario(
                f"a base rate is expected of {name!r}, which is not watched",
                source=source,
                place="expected_base_rate",
                mend=near_miss(name, names),
            )
    scenario = Scenario(
        file.name, file.title, file.description, file.world, file.pilot,
        file.actuator, tuple(laws), abstraction, file.horizon_s, file.draws,
        file.end, file.expected_base_rate, text, source,
    )  # fmt: skip
    for plug in (file.world, file.pilot, file.actuator):
        if plug is not None:
            scenario.settings(plug, 0)
    return scenario


def shipped_scenarios() -> dict[str, Path]:
    """The files of the scenarios that ship, by name."""
    here = Path(__file__).parent
    return {path.stem: path for path in sorted(here.glob(f"*/*{SUFFIX}"))
            if path.parent.name in FOLDERS}  # fmt: skip


FOLDERS = ("tiny", "driving", "household")
"""The folders of this room that hold scenarios."""


def load_scenario(name_or_path: str) -> Scenario:
    """A scenario that ships, by name, or a user's own, by path."""
    shipped = shipped_scenarios()
    if name_or_path in shipped:
        path = shipped[name_or_path]
    else:
        path = Path(name_or_path)
        if path.suffix != SUFFIX and not os.path.exists(path):
            raise InvalidScenario(
                f"no scenario {name_or_path!r}",
                mend=near_miss(name_or_path, shipped) or "`forewarn scenarios` lists",
            )
    return parse_scenario(read_text(path), str(path), path.parent)
