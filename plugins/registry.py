"""Finds plugins (worlds, pilots, actuators and baselines) through entry points.

A package declares a plugin in its metadata, for example

    [project.entry-points."forewarn.worlds"]
    mine = "my_package.bridge:MyWorld [mine]"

where the name in brackets is the extra that the plugin requires, if any. Listing
plugins reads only metadata. A plugin is imported when it is requested, and an error is
raised if it cannot be loaded.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

from pydantic import Field, create_model

from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidInput,
    MissingDependency,
    naming,
    near_miss,
)
from forewarn.abstractions.serial import Strict, validated
from forewarn.plugins.contracts import Actuator, Pilot, Settings, TaskBook, World

Role = Literal["world", "pilot", "actuator", "baseline", "task_book"]

_OURS = "forewarn"
_CONTRACTS: dict[str, Any] = {
    "world": World,
    "pilot": Pilot,
    "actuator": Actuator,
    "task_book": TaskBook,
}


class BrokenPlugin(ForewarnError):
    """A requested plugin cannot be loaded, or does not implement its interface."""

    exit_status = 3


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin, as declared in the metadata of a package."""

    role: Role
    name: str
    package: str
    target: str
    extra: str = ""


@cache
def _found(role: Role) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=f"forewarn.{role}s"):
        known = found.setdefault(point.name, [])
        # A package is listed twice if both a checkout and an installation are on the
        # path.
        if all(point.value != other.value for other in known):
            known.append(point)
    return found


def plugins(role: Role) -> list[Plugin]:
    """Lists all plugins of a role, sorted by name, without importing them."""
    return [
        Plugin(role, point.name, _package(point), point.value, _extra(point))
        for _, points in sorted(_found(role).items())
        for point in points
    ]


def load(role: Role, name: str) -> Callable[..., Any]:
    """Loads a plugin, and returns its factory, which usually is a class.

    Raises:
        InvalidInput: No package declares a plugin of this name, or several packages do.
        MissingDependency: The plugin requires an extra that is not installed.
        BrokenPlugin: The plugin cannot be loaded for another reason.
    """
    points = _found(role).get(name, [])
    if not points:
        known = sorted(_found(role))
        mend = (
            near_miss(name, known)
            or f"the known names are: {', '.join(known) or 'none'}; if your package "
            "provides it, install the package"
        )
        raise InvalidInput(f"there is no {role} {name!r:.80}", mend=mend)
    if len(points) > 1:
        offered = " and ".join(_package(point) for point in points)
        raise InvalidInput(
            f"{offered} both provide a {role} named {name!r}",
            mend="uninstall one of the packages",
        )
    point = points[0]
    try:
        factory: Callable[..., Any] = point.load()
    except Exception as error:
        # The error may name the extra of a dependency, which may install less than the
        # plugin's.
        if isinstance(error, ImportError | MissingDependency):
            if _package(point) == _OURS and (extra := _extra(point)):
                raise MissingDependency(f"the {role} {name}", extra) from error
        if isinstance(error, ForewarnError):
            raise
        raise BrokenPlugin(
            f"the {role} {name} of the package {_package(point)} could not be "
            f"loaded: {type(error).__name__}: {error}"
        ) from error
    return factory


def make_world(name: str, settings: Settings | None = None, source: str = "") -> World:
    """Creates a world by name; `source` is the file that contains the settings."""
    made: World = _make("world", name, settings, source)
    return made


def make_pilot(name: str, settings: Settings | None = None, source: str = "") -> Pilot:
    """Creates a pilot by name."""
    made: Pilot = _make("pilot", name, settings, source)
    return made


def make_actuator(
    name: str, own: Actuator, settings: Settings | None = None, source: str = ""
) -> Actuator:
    """Creates an actuator by name; it wraps the actuator of the world."""
    made: Actuator = _make("actuator", name, settings, source, own)
    return made


def make_task_book(
    name: str, settings: Settings | None = None, source: str = ""
) -> TaskBook:
    """Creates a task book by name."""
    made: TaskBook = _make("task_book", name, settings, source)
    return made


def _make(
    role: Role, name: str, settings: Settings | None, source: str, *parts: Any
) -> Any:
    where = f"{source}: {role}" if source else f"{role} {name}"
    with naming(where if source else ""):
        factory = load(role, name)
    if lacks := getattr(factory, "__abstractmethods__", None):
        raise _incomplete(role, name, lacks)
    given = _settings(factory, dict(settings or {}), where, len(parts))
    with naming(where):
        try:
            made = factory(*parts, **given)
        except InvalidInput as error:
            lost = error.mend.startswith("the file is not in the folder")
            mend = error.mend
            if lost:
                mend = "a path that begins with $here/ is relative to the scenario file"
            if not source or not (lost or re.fullmatch(r"\w+", error.source)):
                raise
            problem = f"{error.source}: {error.problem}".removeprefix(": ")
            raise type(error)(
                problem, source=where, place=error.place, mend=mend
            ) from error
    contract = _CONTRACTS[role]
    if not isinstance(made, contract):
        wanted = {n for n in dir(contract) if not n.startswith("_")}
        wanted |= set(contract.__annotations__)
        raise _incomplete(role, name, {n for n in wanted if not hasattr(made, n)})
    return made


def _incomplete(role: Role, name: str, lacks: Iterable[str]) -> BrokenPlugin:
    told = ", ".join(sorted(lacks))
    return BrokenPlugin(f"{name} is not a valid {role}, because it lacks {told}")


def takes_settings(world: str, names: Iterable[str]) -> bool:
    """Whether a world has all these settings."""
    schema = _schema(load("world", world), 0)
    return schema is None or set(names) <= set(schema.model_fields)


def _settings(
    factory: Callable[..., Any], settings: dict[str, Any], source: str, parts: int
) -> dict[str, Any]:
    """Validates settings against the signature of a factory.

    The first `parts` parameters of the factory are not settings.
    """
    if not all(isinstance(key, str) for key in settings):
        raise InvalidInput("the names of settings must be strings", source=source)
    schema = _schema(factory, parts)
    if schema is None:
        return settings
    checked = validated(schema, settings, source)
    return {name: getattr(checked, name) for name in checked.model_fields_set}


@cache
def _schema(factory: Callable[..., Any], parts: int) -> type[Strict] | None:
    """Returns the schema of a factory's settings; None if any settings are allowed."""
    parameters = [*inspect.signature(factory).parameters.values()][parts:]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    annotated: Any = factory
    if isinstance(factory, type):
        annotated = annotated.__init__
    hints = get_type_hints(annotated, include_extras=True)
    declared: dict[str, Any] = {
        p.name: (
            _lenient(hints.get(p.name, Any)),
            ... if p.default is p.empty else p.default,
        )
        for p in parameters
    }
    return create_model("Settings", __base__=Strict, **declared)


def _lenient(hint: Any) -> Any:
    """Allows a path to be given as text, as in a scenario file."""
    is_path = hint is Path or Path in get_args(hint)
    return Annotated[hint, Field(strict=False)] if is_path else hint


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "unknown"


def _extra(point: EntryPoint) -> str:
    return point.extras[0] if point.extras else ""
