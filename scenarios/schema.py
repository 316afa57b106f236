"""Scenario files in YAML: world, pilot, laws, abstraction, random values, and end."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field

from forewarn.abstractions.abstraction import Abstraction, load_abstraction
from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidInput, naming, near_miss
from forewarn.abstractions.expression import Expression, parse_expression
from forewarn.abstractions.files import inside, parse_yaml, read_text, read_yaml
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.plugins.contracts import TaskBook
from forewarn.plugins.loop.replay import make_judge
from forewarn.plugins.registry import make_task_book, takes_settings
from forewarn.scenarios.draws import Draw, Plain, draw_all, filled

FORMAT = "forewarn.scenario/1"
SUFFIX = ".yaml"
ELSEWHERE = "@"
"""The separator between a scenario's name and a world that replaces the scenario's
own.
"""

Settings = Mapping[str, Any]


class InvalidScenario(InvalidInput):
    """The scenario file is malformed or contradicts itself."""


class NamedPlugin(Strict):
    """A world, pilot or actuator by its registered name, with its settings."""

    name: str
    settings: dict[str, Any] = {}


class End(Strict):
    """The conditions that end an episode, unless its world ends it earlier."""

    max_time_s: float = Field(gt=0, le=86_400)
    on_violation: Literal["continue", "stop"] = "continue"


class _ScenarioFile(Strict):
    format: Literal["forewarn.scenario/1"]
    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    title: str
    description: str = ""
    world: NamedPlugin
    pilot: NamedPlugin
    actuator: NamedPlugin | None = None
    laws: list[str] = Field(min_length=1)
    abstraction: str | dict[str, Any]
    horizon_s: float = Field(default=3.0, gt=0)
    goal: str = ""
    draws: dict[str, Draw] = {}
    end: End
    expected_base_rate: dict[str, tuple[float, float]] = {}
    rules: str | list[str] = []
    predicates: str | list[str] = []


@dataclass(frozen=True)
class Scenario:
    """A validated scenario.

    Args:
        name: The name on the command line.
        title: A one-line description.
        description: A longer description, with the purpose of the scenario.
        world: The world.
        pilot: The pilot.
        actuator: The actuator that executes decisions; None for the world's own.
        laws: The watched laws; the parts of a compound law are separate laws.
        abstraction: The abstraction that the model is learned over.
        horizon_s: The prediction horizon H of the risk, in seconds.
        goal: The condition that becomes true when the task is complete; None without a
            task.
        draws: The distributions of the random values.
        end: The conditions that end an episode.
        expected_base_rate: The expected range of each law's violation rate in unguarded
            runs.
        judges: The rules that are evaluated in addition to the risk, as JSON.
        text: The text of the file.
        source: The path of the file.
        pilot_source: The option that replaced the pilot or its settings, if any.
    """

    name: str
    title: str
    description: str
    world: NamedPlugin
    pilot: NamedPlugin
    actuator: NamedPlugin | None
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
    pilot_source: str = ""

    @cached_property
    def digest(self) -> str:
        """The digest of the parts that determine a run, which excludes the title, the
        description and comments.
        """
        actuator = self.actuator and self.actuator.model_dump()
        content = [
            self.unguarded_digest,
            self.abstraction.fingerprint(),
            self.horizon_s,
            actuator,
            self.judges,
        ]
        return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()

    @property
    def former_digest(self) -> str:
        """The digest of the file's text, which identifies the scenario in policies of
        earlier versions.
        """
        content = f"{self.text}\n{self.abstraction.fingerprint()}"
        digest = hashlib.sha256(content.encode()).hexdigest()
        text = digest + self.pilot.model_dump_json()
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def unguarded_digest(self) -> str:
        """The digest of the parts that determine an unguarded run, which excludes the
        abstraction and the horizon.
        """
        vocabulary = self.abstraction.vocabulary
        settings = self.world.settings.items()
        content = [
            self.name,
            self.world.name,
            # The path of the scenario is passed to some worlds, but does not affect
            # runs.
            {key: value for key, value in settings if key != "scenario"},
            self.pilot.model_dump(),
            {name: draw.model_dump() for name, draw in self.draws.items()},
            self.end.model_dump(),
            self.references,
            repr(self.goal),
            vocabulary and vocabulary.name,
            *_code_in([self.world.settings, self.pilot.settings]),
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
        """References to the scenario's laws, in the form that a guard accepts."""
        return tuple(law.reference for law in self.laws)

    def drawn(self, seed: int) -> dict[str, Plain]:
        """Samples the random values for the episode with this seed."""
        return draw_all(self.draws, seed)

    def settings(self, plugin: NamedPlugin, seed: int) -> dict[str, Any]:
        """Returns a plugin's settings for the episode with this seed."""
        drawn = self.drawn(seed)
        settings: dict[str, Any] = filled(
            plugin.settings, drawn, self.source, plugin.name
        )
        return settings

    def on(self, world: str) -> Scenario:
        """Returns the same scenario in another world, which receives the settings of
        the original world.

        The other world also receives the scenario's path, in order to set up its
        traffic.
        """
        if not takes_settings(world, self.world.settings):
            raise InvalidScenario(
                f"the scenario does not run in the world {world}",
                source=self.source,
                mend="choose another scenario; `forewarn scenarios` lists their worlds",
            )
        settings = {**self.world.settings, "scenario": self.source}
        return replace(
            self,
            world=NamedPlugin(name=world, settings=settings),
            actuator=None,
            text=f"{self.text}# world: {world}\n",
            source=f"{self.source}{ELSEWHERE}{world}",
        )

    def under(self, laws: Sequence[str]) -> Scenario:
        """Returns the same scenario with other laws: names in the scenario or the law
        book, or formulas.
        """
        own = {law.name: law.reference for law in self.laws}
        texts = [own.get(text, text) for text in laws]
        found = _laws(texts, self.abstraction, "--law")
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

    def driven_by(self, pilot: NamedPlugin) -> Scenario:
        """Returns the same scenario with another pilot."""
        if pilot == self.pilot:
            return self
        changed = replace(
            self,
            pilot=pilot,
            pilot_source="--set" if pilot.name == self.pilot.name else "--pilot",
            text=f"{self.text}# pilot: {pilot.model_dump_json()}\n",
        )
        changed.settings(pilot, 0)
        return changed


def parse_scenario(text: str, source: str, folder: Path) -> Scenario:
    """Parses the text of a scenario file.

    Args:
        text: The YAML text.
        source: The name of the file, for error messages.
        folder: The folder for relative paths in the text.
    """
    return _scenario(parse_yaml(text, source), text, source, folder)


def _scenario(content: object, text: str, source: str, folder: Path) -> Scenario:
    file = validated(_ScenarioFile, content, source, InvalidScenario)
    if isinstance(file.abstraction, str):
        place = f"{source}: abstraction"
        abstraction = load_abstraction(inside(folder, file.abstraction, place))
    else:
        abstraction = _abstraction(file, source, folder)
    laws = _laws(file.laws, abstraction, source, "laws")
    names = [law.name for law in laws]
    for name in file.expected_base_rate:
        if name not in names:
            raise InvalidScenario(
                f"the scenario does not watch the law {name!r}",
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
    for plugin in (file.world, file.pilot, file.actuator):
        if plugin is not None:
            scenario.settings(plugin, 0)
    return scenario


def _abstraction(file: _ScenarioFile, source: str, folder: Path) -> Abstraction:
    """Creates the abstraction that a scenario contains."""
    content, place = cast(dict[str, Any], file.abstraction), f"{source}: abstraction"
    try:
        return Abstraction.from_dict(content, place, folder=folder)
    except InvalidInput as error:
        own = str(content.get("vocabulary", ""))
        worlds = str(file.world.settings.get("vocabulary", own))
        if own and Path(worlds).name != Path(own).name:
            mend = (
                f"the abstraction's vocabulary is {own}, but the world's is "
                f"{Path(worlds).name}"
            )
            raise InvalidScenario(
                error.problem, source=error.source, place=error.place, mend=mend
            ) from error
        raise


def _laws(
    texts: Sequence[str], abstraction: Abstraction, source: str, place: str = ""
) -> tuple[Law, ...]:
    """Returns the laws with these names or formulas; the parts of a compound law become
    separate laws.
    """
    laws: list[Law] = []
    for text in texts:
        with naming(source, place):
            found = find_laws(text, vocabulary=abstraction.vocabulary)
        laws += [part for law in found for part in law.parts or (law,)]
    names = [law.name for law in laws]
    for name in names:
        if names.count(name) > 1:
            raise InvalidScenario(
                f"the law {name!r:.80} appears twice", source=source, place=place
            )
    return tuple(laws)


def _judges(file: _ScenarioFile, source: str, folder: Path) -> tuple[str, ...]:
    """Loads the rules that the file names, with their predicates."""
    rules, predicates = (
        [inside(folder, each, source) for each in _several(names)]
        for names in (file.rules, file.predicates)
    )
    if predicates and not rules:
        raise InvalidScenario(
            "predicates can only be used together with rules", source=source
        )
    if not rules:
        return ()
    from forewarn.monitors.rules.judging import PREDICATES
    from forewarn.monitors.rules.rule import load_rules

    own = {PREDICATES: [read_yaml(path) for path in predicates]}
    judges = (make_judge(load_rules(path).as_dict() | own) for path in rules)
    return tuple(json.dumps(judge.as_dict()) for judge in judges)


def _several(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names


def _goal(text: str, abstraction: Abstraction, source: str) -> Expression | None:
    if not text:
        return None
    with naming(source, "goal"):
        return parse_expression(text, abstraction.vocabulary)


def shipped_scenarios() -> dict[str, Path]:
    """Returns the files of the shipped scenarios, by name."""
    here = Path(__file__).parent
    return {path.stem: path for path in sorted(here.glob(f"*/*{SUFFIX}"))
            if path.parent.name in FOLDERS}  # fmt: skip


def scenario_with_law(name: str) -> str:
    """Returns the shipped scenario that defines a law; empty if none does."""
    for scenario, path in shipped_scenarios().items():
        if f" {name} := " in path.read_text():
            return scenario
    return ""


FOLDERS = ("tiny", "driving", "household", "highway", "metadrive")
"""The folders with shipped scenarios."""


@checked
def load_scenario(name_or_path: Path | str) -> Scenario:
    """Loads a shipped scenario by name, or any other by path; for a family, the
    scenario of one task.

    `household:TASK` is a task of the family `household`; the path of a file can replace
    the name of the family. `s1@carla` is the scenario `s1` in the world `carla`.
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
        if path.is_dir():
            raise InvalidScenario(
                "this is a folder, not a scenario",
                source=name_or_path,
                mend="give a YAML file, or a name that `forewarn scenarios` lists",
            )
        if path.suffix == SUFFIX and path.stem in shipped and not path.exists():
            mend = f"write {path.stem}: this scenario is built in"
            raise InvalidScenario("no such file", source=name_or_path, mend=mend)
        if path.suffix != SUFFIX and not os.path.exists(path):
            known = [*shipped, *(f"{name}:" for name in shipped_families())]
            file = path.with_suffix(SUFFIX)
            raise InvalidScenario(
                f"no scenario {name_or_path!r}",
                mend=f"did you mean {file}?"
                if file.exists()
                else near_miss(name_or_path, known)
                or "list them with `forewarn scenarios`",
            )
    return parse_scenario(read_text(path), str(path), path.parent)


# -- families


@dataclass(frozen=True)
class Family:
    """A family of scenarios, one per task, in one file; `$key` is replaced by the
    task's own value.

    Args:
        name: The name on the command line, before the colon.
        title: A one-line description.
        tasks: The tasks in a campaign over the family.
        path: The family's file.
    """

    name: str
    title: str
    tasks: tuple[str, ...]
    path: Path

    def scenario(self, task: str) -> Scenario:
        """Returns the scenario of one task, which need not be in `tasks`."""
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
    """Returns the files of the shipped families, by name."""
    here = Path(__file__).parent
    return {path.stem: path for path in sorted(here.glob(f"*/families/*{SUFFIX}"))}


def is_family(name_or_path: str) -> bool:
    """Whether a name or path refers to a family of scenarios and not to a single
    scenario.
    """
    if name_or_path in shipped_families():
        return True
    path = Path(name_or_path)
    if path.suffix != SUFFIX or not path.exists():
        return False
    content = parse_yaml(read_text(path), str(path))
    return isinstance(content, dict) and "tasks" in content


def load_family(name_or_path: str) -> Family:
    """Loads a shipped family by name, or any other by path."""
    shipped = shipped_families()
    path = shipped.get(name_or_path, Path(name_or_path))
    if name_or_path not in shipped and path.suffix != SUFFIX:
        raise InvalidScenario(
            f"there is no family of scenarios {name_or_path!r}",
            mend=near_miss(name_or_path, shipped)
            or ("list them with `forewarn scenarios`"),
        )
    content = parse_yaml(read_text(path), str(path))
    book = _book(content, str(path))
    title = str(content.get("family", ""))
    return Family(path.stem, title, tuple(book.names()), path)


def _book(content: Any, source: str) -> TaskBook:
    """Loads the tasks to which a family's file refers."""
    if not isinstance(content, dict) or not isinstance(content.get("tasks"), dict):
        raise InvalidScenario(
            "the file has no tasks, so it is not a family of scenarios", source=source
        )
    plugin = validated(NamedPlugin, content["tasks"], source, InvalidScenario)
    return make_task_book(plugin.name, plugin.settings, source)


def _of_task(content: Any, entry: Mapping[str, Any]) -> Any:
    """Replaces each `$key` by the task's own value; unknown keys are left for draws."""
    if isinstance(content, dict):
        return {key: _of_task(value, entry) for key, value in content.items()}
    if isinstance(content, list):
        return [_of_task(value, entry) for value in content]
    if isinstance(content, str) and content.startswith("$"):
        return entry.get(content[1:], content)
    return content


def _code_in(settings: Any) -> Iterator[str]:
    """Yields the digest of each Python file named in settings, as in `file.py:name`."""
    if isinstance(settings, Mapping):
        settings = list(settings.values())
    if isinstance(settings, list):
        for each in settings:
            yield from _code_in(each)
    elif isinstance(settings, str):
        path = Path(settings.rpartition(":")[0])
        if path.suffix == ".py" and path.is_file():
            yield hashlib.sha256(path.read_bytes()).hexdigest()
