"""Converts observations of an environment to signals, by a function or a mapping."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pydantic import field_validator

from forewarn.abstractions.arguments import expect
from forewarn.abstractions.errors import InvalidInput, near_miss, suggest
from forewarn.abstractions.frame import Value
from forewarn.abstractions.serial import validated
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.plugins.columns import Encoding
from forewarn.plugins.functions import takes

Shown = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the signals of an observation and its info."""

_PLACE = re.compile(r"(observation|info)((?:\.\w+|\[-?\d+\])*)")
_STEP = re.compile(r"\.(\w+)|\[(-?\d+)\]")
_PLAIN = frozenset({float, bool, str, type(None)})


class Reading(Encoding):
    """The path at which to read a signal, and its encoding.

    Args:
        at: The path: `observation` or `info`, followed by `.name` and `[index]`.
    """

    at: str

    @field_validator("at")
    @classmethod
    def _is_a_place(cls, at: str) -> str:
        if not _PLACE.fullmatch(at):
            hint = near_miss(re.split(r"[.\[]", at)[0], ("observation", "info"))
            mend = hint or "write observation[0] or info.name"
            raise ValueError(f"{at!r:.60} is not a valid path ({mend})")
        return at


class Senses:
    """Converts observations of an environment to the signals of frames.

    Args:
        shown: A function that returns the signals, given the observation and the info,
            a class whose instances are such functions, or a mapping from signals to
            paths. If the object has a method `reset(env)`, it is called when an episode
            begins.
        vocabulary: The vocabulary of the signals, which defines their units.
    """

    def __init__(
        self,
        shown: Shown | Mapping[str, str | Reading],
        vocabulary: Vocabulary | None = None,
    ) -> None:
        if isinstance(shown, type):
            shown = takes(shown, "signals")()
        if isinstance(shown, Mapping):
            self._shown: Shown = _Map(shown, vocabulary)
            self.provides: tuple[str, ...] | None = tuple(shown)
        else:
            self._shown = takes(shown, "signals", "observation", "info")
            said = getattr(shown, "provides", None)
            self.provides = None if said is None else tuple(said)
        self._hears = getattr(shown, "reset", None)

    def reset(self, env: Any) -> None:
        """Starts an episode in this environment."""
        if self._hears is not None:
            self._hears(env)

    def check(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Checks that the paths of a mapping exist in an observation and its info.

        Raises:
            InvalidInput: A path does not exist.
        """
        if isinstance(self._shown, _Map):
            self._shown.check(observation, info)

    def values(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Value]:
        """Returns the signals of an observation and its info as plain values."""
        shown = self._shown(observation, info)
        expect(shown, Mapping, "signals", "return a dict of signals and their values")
        return {
            name: value if type(value) in _PLAIN else _number(value)
            for name, value in shown.items()
        }


def _number(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray) and value.size == 1:
        value = value.item()
    # The guard reports values of a wrong type.
    return float(value) if type(value) is int else value


class _Map:
    """Reads each signal at its path."""

    def __init__(
        self, entries: Mapping[str, str | Reading], vocabulary: Vocabulary | None
    ) -> None:
        self._readers = {
            name: _reader(name, entry, vocabulary) for name, entry in entries.items()
        }

    def __call__(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        sources = {"observation": observation, "info": info}
        found = {}
        for name, (source, steps, convert) in self._readers.items():
            value: Any = sources[source]
            try:
                for step in steps:
                    value = value[step]
            except (KeyError, IndexError, TypeError):
                continue  # unknown at this time, so the signal is absent
            if convert is not None:
                value = convert(_number(value))
            found[name] = value
        return found

    def check(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Checks that all paths exist."""
        sources = {"observation": observation, "info": info}
        for name, (source, steps, _) in self._readers.items():
            if source == "info" and not info:
                continue  # some environments return an empty info until the first step
            value, here = sources[source], source
            for step in steps:
                try:
                    value = value[step]
                except (KeyError, IndexError, TypeError):
                    raise InvalidInput(
                        f"{here} has no {step!r:.60}",
                        source=f"signals: {name}",
                        mend=_there(value, step),
                    ) from None
                here += f".{step}" if isinstance(step, str) else f"[{step}]"


def _there(value: Any, step: str | int) -> str:
    """Describes what exists at a step of a path, for error messages."""
    if isinstance(value, Mapping):
        return suggest(str(step), map(str, value)) or "the mapping is empty"
    try:
        return f"the array has {len(value)} elements, numbered from 0"
    except TypeError:
        return f"it is {value!r:.60}"


def _reader(
    name: str, entry: str | Reading, vocabulary: Vocabulary | None
) -> tuple[str, tuple[str | int, ...], Callable[[object], object] | None]:
    """Returns the source of a signal, the path, and the conversion if needed."""
    given = {"at": entry} if isinstance(entry, str) else entry
    reading = (
        given
        if isinstance(given, Reading)
        else validated(Reading, given, f"the signal {name}")
    )
    found = _PLACE.fullmatch(reading.at)
    assert found is not None  # noqa: S101 - the schema has looked at it
    steps = tuple(word or int(number) for word, number in _STEP.findall(found[2]))
    if vocabulary is None:
        return found[1], steps, None
    return found[1], steps, _alias(name, reading, vocabulary)


def _alias(
    name: str, reading: Reading, vocabulary: Vocabulary
) -> Callable[[object], object] | None:
    """Returns the conversion of a number to the unit of the signal, if any."""
    signal = vocabulary.signals.get(name)
    if signal is None:
        if vocabulary.knows(name):
            return None
        raise InvalidInput(
            f"the vocabulary {vocabulary.name} has no signal {name!r:.60}",
            mend=near_miss(name, vocabulary.signals),
        )
    return reading.alias(name, signal).convert
