"""Scenario files: world, pilot, laws, abstraction, randomness and end, in YAML."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from forewarn.abstractions.abstraction import Abstraction, load_abstraction
from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.expression import Expression, parse_expression
from forewarn.abstractions.files import inside, parse_yaml, read_text
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.rules.judging import rule_judge
from forewarn.plugins.contracts import TaskBook
from forewarn.plugins.registry import make_task_book
from forewarn.scenarios.draws import Draw, Plain, draw_all, filled

FORMAT = "forewarn.scenario/1"
SUFFIX = ".yaml"
ELSEWHERE = "@"
"""The separator between a scenario's name and the world in which it should run instead
of its own.
"""

Settings = Mapping[str, Any]


class InvalidScenario(InvalidInput):
    """A scenario file that is malformed or contradicts itself."""


Span = Annotated[tuple[float, float], Field(strict=False)]


class Plug(Strict):
    """A world, pilot or actuator by its registered name, with its settings."""

    name: str
    settings: dict[str, Any] = {}


class End(Strict):
    """When an episode ends, unless its world ends it earlier."""

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
    goal: str = ""
    draws: dict[str, Draw] = {}
    end: End
    expected_base_rate: dict[str, Span] = {}
    rules: str | list[str] = []
    predicates: str | list[str] = []


@dataclass(frozen=True)
class Scenario:
    """A scenario, checked and ready to run.

    Args:
        name: Its name on the command line.
        title: One line for people.
        description: Its description and purpose.
        world: The world.
        pilot: The pilot.
        actuator: The actuator that carries out decisions; None: the world's own.
        laws: The watched laws; the parts of a law count separately.
        abstraction: The abstraction that the model is learned over.
        horizon_s: H of the guard's risk.
        goal: The condition that holds when the task is done; None without a task.
        draws: The random values.
        end: When an episode is over.
        expected_base_rate: The expected range of each law's violation rate in unguarded
            runs.
        judges: The rules that judge in the scenario, as JSON.
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
    goal: Expression | None
    draws: Mapping[str, Draw]
    end: End
    expected_base_rate: Mapping[str, tuple[float, float]]
    judges: tuple[str, ...]
    text: str
    source: str

    @cached_property
    def digest(self) -> str:
        """A digest of the text and the abstraction, which its episodes share."""
        content = f"{self.text}\n{self.abstraction.fingerprint()}"
        return hashlib.sha256(content.encode()).hexdigest()

    @cached_property
    def unguarded_digest(self) -> str:
        """A digest of the parts that determine an unguarded run, which exclude the
        abstraction and the horizon.
        """
        vocabulary = self.abstraction.vocabulary
        settings = self.world.settings.items()
        content = [
            self.name,
            self.world.name,
            # Where a scenario lies is told to some worlds, and changes no run.
            {key: value for key, value in settings if key != "scenario"},
            self.pilot.model_dump(),
            {name: draw.model_dump() for name, draw in self.draws.items()},
            self.end.model_dump(),
            self.references,
            repr(self.goal),
            vocabulary and vocabulary.name,
        ]
        return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()

    @property
    def facts(self) -> dict[str, Any]:
        """The facts that a model must match in order to guard this scenario."""
        abstraction = self.abstraction
        return {
            "scenario": self.name,
            "vocabulary": abstraction.vocabulary and abstraction.vocabulary.name,
            "period_s": abstraction.period_s,
        }

    @property
    def references(self) -> tuple[str, ...]:
        """The scenario's laws, in the form that a guard takes."""
        return tuple(law.reference for law in self.laws)

    def drawn(self, seed: int) -> dict[str, Plain]:
        """The random choices in the episode of that seed."""
        return draw_all(self.draws, seed)

    def settings(self, plug: Plug, seed: int) -> dict[str, Any]:
        """A plug's settings in the episode of that seed."""
        drawn = self.drawn(seed)
        settings: dict[str, Any] = filled(plug.settings, drawn, self.source, plug.name)
        return settings

    def on(self, world: str) -> Scenario:
        """The same scenario in another world that takes the settings of this one.

        That world receives the scenario's name, in order to set up the scenario's
        traffic.
        """
        settings = {**self.world.settings, "scenario": self.source}
        return replace(
            self,
            world=Plug(name=world, settings=settings),
            actuator=None,
            text=f"{self.text}# world: {world}\n",
            source=f"{self.source}{ELSEWHERE}{world}",
        )

    def under(self, laws: Sequence[str]) -> Scenario:
        """The same scenario with other laws: names in the law book, or formulas."""
        found = _laws(laws, self.abstraction, "--law")
        names = [law.name for law in found]
        rates = self.expected_base_rate.items()
        changed = replace(
            self,
            laws=found,
            expected_base_rate={k: rate for k, rate in rates if k in names},
        )
        if changed.references == self.references:
            return self
        text = f"{self.text}# laws: {json.dumps(changed.references)}\n"
        return replace(changed, text=text)

    def driven_by(self, pilot: Plug) -> Scenario:
        """The same scenario with another pilot."""
        if pilot == self.pilot:
            return self
        changed = replace(
            self, pilot=pilot, text=f"{self.text}# pilot: {pilot.model_dump_json()}\n"
        )
        changed.settings(pilot, 0)
        return changed


def parse_scenario(text: str, source: str, folder: Path) -> Scenario:
    """The scenario that a file's text describes.

    Args:
        text: The YAML text.
        source: The file's name, for errors.
        folder: The folder in which the files that it names are looked up.
    """
    return _scenario(parse_yaml(text, source), text, source, folder)


def _scenario(content: object, text: str, source: str, folder: Path) -> Scenario:
    file = validated(_ScenarioFile, content, source, InvalidScenario)
    if isinstance(file.abstraction, str):
        abstraction = load_abstraction(inside(folder, file.abstraction, source))
    else:
        abstraction = Abstraction.from_dict(
            file.abstraction, f"{source}: abstraction", folder=folder
        )
    laws = _laws(file.laws, abstraction, source, "laws")
    names = [law.name for law in laws]
    for name in file.expected_base_rate:
        if name not in names:
            raise InvalidScenario(
                f"expected_base_rate names the law {name!r}, which the scenario "
                "does not watch",
                source=source,
                place="expected_base_rate",
                mend=near_miss(name, names),
            )
    scenario = Scenario(
        file.name, file.title, file.description, file.world, file.pilot,
        file.actuator, laws, abstraction, file.horizon_s,
        _goal(file.goal, abstraction, source), file.draws,
        file.end, file.expected_base_rate, _judges(file, source, folder), text, source,
    )  # fmt: skip
    for plug in (file.world, file.pilot, file.actuator):
        if plug is not None:
            scenario.settings(plug, 0)
    return scenario


def _laws(
    texts: Sequence[str], abstraction: Abstraction, source: str, place: str = ""
) -> tuple[Law, ...]:
    """The laws with these names or formulas, with parts as separate laws."""
    laws: list[Law] = []
    for text in texts:
        try:
            found = find_laws(text, vocabulary=abstraction.vocabulary)
        except InvalidInput as error:
            raise error.within(source, place) from None
        laws += [part for law in found for part in law.parts or (law,)]
    names = [law.name for law in laws]
    for name in names:
        if names.count(name) > 1:
            raise InvalidScenario(
                f"the law {name!r:.80} appears twice", source=source, place=place
            )
    return tuple(laws)


def _judges(file: _ScenarioFile, source: str, folder: Path) -> tuple[str, ...]:
    """The rules that the file names, with the predicates that they use."""
    rules, predicates = (
        [inside(folder, each, source) for each in _several(names)]
        for names in (file.rules, file.predicates)
    )
    if predicates and not rules:
        raise InvalidScenario(
            "predicates can only be used together with rules", source=source
        )
    judges = (rule_judge(path, predicates) for path in rules)
    return tuple(json.dumps(judge.as_dict()) for judge in judges)


def _several(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _goal(text: str, abstraction: Abstraction, source: str) -> Expression | None:
    if not text:
        return None
    try:
        return parse_expression(text, abstraction.vocabulary)
    except InvalidInput as error:
        raise error.within(source, "goal") from None


def shipped_scenarios() -> dict[str, Path]:
    """The files of the scenarios that ship, by name."""
    here = Path(__file__).parent
    return {path.stem: path for path in sorted(here.glob(f"*/*{SUFFIX}"))
            if path.parent.name in FOLDERS}  # fmt: skip


FOLDERS = ("tiny", "driving", "household", "highway", "metadrive")
"""The folders with shipped scenarios."""


def load_scenario(name_or_path: Path | str) -> Scenario:
    """A shipped scenario by name, or a user's own by path; for a family, the scenario
    of one task.

    A task of the family `household`, or of one in a file, is `household:TASK`;
    `s1@carla` is the scenario `s1` in the world `carla`.
    """
    name_or_path = str(name_or_path)
    here, elsewhere, world = name_or_path.rpartition(ELSEWHERE)
    if elsewhere and here and not os.path.exists(name_or_path):
        return load_scenario(here).on(world)
    shipped = shipped_scenarios()
    if name_or_path in shipped:
        path = shipped[name_or_path]
    else:
        family, _, task = name_or_path.rpartition(":")
        if family and not os.path.exists(name_or_path):
            return load_family(family).scenario(task)
        path = Path(name_or_path)
        if path.suffix != SUFFIX and not os.path.exists(path):
            known = [*shipped, *(f"{name}:" for name in shipped_families())]
            raise InvalidScenario(
                f"no scenario {name_or_path!r}",
                mend=near_miss(name_or_path, known) or "`forewarn scenarios` lists",
            )
    return parse_scenario(read_text(path), str(path), path.parent)


# -- families


@dataclass(frozen=True)
class Family:
    """A scenario for each of many tasks: one file, in which `$key` stands for the
    task's own value.

    Args:
        name: Its name on the command line, before the colon.
        title: One line for people.
        tasks: The tasks that a campaign over the family runs.
        path: Its file.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    path: Path

    def scenario(self, task: str) -> Scenario:
        """The scenario of one task, whether or not it is among `tasks`."""
        source = f"{self.path}:{task}"
        text = read_text(self.path)
        content = parse_yaml(text, str(self.path))
        entry = _book(content, str(self.path)).entry(task)
        content = {
            key: value
            for key, value in content.items()
            if key not in ("tasks", "family")
        }
        filled_in = _of_task(content, {"task": task, **entry})
        return _scenario(filled_in, f"# task: {task}\n{text}", source, self.path.parent)


def shipped_families() -> dict[str, Path]:
    """The files of the families that ship, by name."""
    here = Path(__file__).parent
    return {path.stem: path for path in sorted(here.glob(f"*/families/*{SUFFIX}"))}


def is_family(name_or_path: str) -> bool:
    """Whether a name or path is a family of scenarios, not a single scenario."""
    if name_or_path in shipped_families():
        return True
    path = Path(name_or_path)
    if path.suffix != SUFFIX or not path.exists():
        return False
    content = parse_yaml(read_text(path), str(path))
    return isinstance(content, dict) and "tasks" in content


def load_family(name_or_path: str) -> Family:
    """A shipped family by name, or a user's own by path."""
    shipped = shipped_families()
    path = shipped.get(name_or_path, Path(name_or_path))
    if name_or_path not in shipped and path.suffix != SUFFIX:
        raise InvalidScenario(
            f"there is no family of scenarios {name_or_path!r}",
            mend=near_miss(name_or_path, shipped) or "`forewarn scenarios` lists",
        )
    content = parse_yaml(read_text(path), str(path))
    book = _book(content, str(path))
    title = str(content.get("family", ""))
    return Family(path.stem, title, tuple(book.names()), path)


def _book(content: Any, source: str) -> TaskBook:
    """The tasks to which a family's file refers."""
    if not isinstance(content, dict) or not isinstance(content.get("tasks"), dict):
        raise InvalidScenario(
            "the file has no tasks, so it is not a family of scenarios", source=source
        )
    plug = validated(Plug, content["tasks"], source, InvalidScenario)
    return make_task_book(plug.name, plug.settings, source)


def _of_task(content: Any, entry: Mapping[str, Any]) -> Any:
    """The content with the task's own values for `$key`; draws are left alone."""
    if isinstance(content, dict):
        return {key: _of_task(value, entry) for key, value in content.items()}
    if isinstance(content, list):
        return [_of_task(value, entry) for value in content]
    if isinstance(content, str) and content.startswith("$"):
        return entry.get(content[1:], content)
    return content
