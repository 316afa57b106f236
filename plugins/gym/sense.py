"""Converts an environment's observations to signals, by a user's function or a map."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pydantic import field_validator

from forewarn.abstractions.errors import InvalidInput, near_miss, suggest
from forewarn.abstractions.frame import Value
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.vocabularies.signals import Alias
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary

Shown = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
"""Returns the signals of an observation and its info."""

_PLACE = re.compile(r"(observation|info)((?:\.\w+|\[-?\d+\])*)")
_STEP = re.compile(r"\.(\w+)|\[(-?\d+)\]")
_PLAIN = frozenset({float, bool, str, type(None)})


class Reading(Strict):
    """Describes where to read a signal.

    Args:
        at: The path: `observation` or `info`, followed by `.name` and `[index]`.
        unit: The unit there, if it differs from the signal's.
        codes: The meaning of each number, for a signal that is not a number.
        none_codes: Numbers that mean "does not exist".
    """

    at: str
    unit: str | None = None
    codes: dict[float, bool | str] = {}
    none_codes: list[float] = []

    @field_validator("at")
    @classmethod
    def _is_a_place(cls, at: str) -> str:
        if not _PLACE.fullmatch(at):
            hint = near_miss(re.split(r"[.\[]", at)[0], ("observation", "info"))
            mend = hint or "write observation[0] or info.name"
            raise ValueError(f"{at!r:.60} is not a path ({mend})")
        return at


class Senses:
    """Converts an environment's observations to the values of frames.

    Args:
        shown: A function of observation and info, a class that makes one, or a map from
            signals to paths. A method `reset(env)` is called when an episode begins.
        vocabulary: The vocabulary of the signals; required for a map.
    """

    def __init__(
        self,
        shown: Shown | Mapping[str, str | Reading],
        vocabulary: Vocabulary | None = None,
    ) -> None:
        if isinstance(shown, type):
            shown = shown()
        if isinstance(shown, Mapping):
            self._shown: Shown = _Map(shown, vocabulary)
            self.provides: tuple[str, ...] | None = tuple(shown)
        else:
            self._shown = shown
            said = getattr(shown, "provides", None)
            self.provides = None if said is None else tuple(said)
        self._hears = getattr(shown, "reset", None)

    def reset(self, env: Any) -> None:
        """Begins an episode in this environment."""
        if self._hears is not None:
            self._hears(env)

    def check(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Rejects a map with a path that does not exist.

        Raises:
            InvalidInput: A path does not exist; the message lists what exists.
        """
        if isinstance(self._shown, _Map):
            self._shown.check(observation, info)

    def values(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Value]:
        """The present signals; NumPy numbers become Python numbers."""
        shown = self._shown(observation, info)
        return {
            name: value if type(value) in _PLAIN else _number(value)
            for name, value in shown.items()
        }


def _number(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray) and value.size == 1:
        value = value.item()
    # The guard itself reports values that are not numbers.
    return float(value) if type(value) is int else value


class _Map:
    """Reads each signal from its path in a map."""

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
                continue  # unknown at present, so the signal is absent
            if convert is not None:
                value = convert(_number(value))
            found[name] = value
        return found

    def check(self, observation: Any, info: Mapping[str, Any]) -> None:
        """Rejects a path that does not exist."""
        sources = {"observation": observation, "info": info}
        for name, (source, steps, _) in self._readers.items():
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
    """Describes what exists at a step of the path, for an error."""
    if isinstance(value, Mapping):
        return suggest(str(step), map(str, value)) or "the array is empty"
    try:
        return f"the array has {len(value)} elements, numbered from 0"
    except TypeError:
        return f"it is {value!r:.60}"


def _reader(
    name: str, entry: str | Reading, vocabulary: Vocabulary | None
) -> tuple[str, tuple[str | int, ...], Callable[[object], object] | None]:
    """A signal's source, its path there, and the conversion to a value."""
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
    """The conversion of a raw number to the signal's unit and encoding, if needed."""
    signal = vocabulary.signals.get(name)
    if signal is None:
        if vocabulary.knows(name):
            return None
        raise InvalidInput(
            f"the vocabulary {vocabulary.name} has no signal {name!r:.60}",
            mend=near_miss(name, vocabulary.signals),
        )
    return Alias.of(
        name, signal, reading.unit, reading.codes, reading.none_codes
    ).convert
