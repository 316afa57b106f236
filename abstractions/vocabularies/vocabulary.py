"""Vocabularies: the signals that laws, traces and bridges of a domain share.

A vocabulary is a YAML file in the format `forewarn.vocabulary/1`. `driving` and
`household` are built in; users can add their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import (
    InvalidExpression,
    InvalidVocabulary,
    SignalFault,
    naming,
    near_miss,
)
from forewarn.abstractions.files import inside, read_yaml
from forewarn.abstractions.frame import Value, is_number
from forewarn.abstractions.serial import Strict, validated
from forewarn.abstractions.vocabularies.signals import (
    OBJECT,
    Alias,
    Danger,
    ObjectPredicate,
    Signal,
    SignalType,
)

__all__ = [
    "SHIPPED",
    "Alias",
    "ObjectPredicate",
    "Signal",
    "Vocabulary",
    "load_vocabulary",
    "named_vocabulary",
    "vocabulary_from",
]

SHIPPED = ("driving", "household")
YAML = (".yaml", ".yml")

_NAME = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"(?P<name>[A-Za-z_]\w*)\((?P<arguments>[^()]*)\)")


@checked
@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The signals, object predicates and aliases of a domain.

    `inputs` lists the inputs of each bridge. Each input has a signal with its age in
    seconds: for the input `chassis`, the signal is `chassis_age`.
    """

    name: str
    signals: Mapping[str, Signal]
    predicates: Mapping[str, ObjectPredicate]
    aliases: Mapping[str, Alias]
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    doc: str = ""

    def names(self) -> list[str]:
        """Returns all valid names, for suggestions."""
        return [*self.signals, *self.predicates, *self.aliases]

    def signal(self, name: str) -> Signal:
        """Returns the signal with this name; aliases are not resolved."""
        found = self.signals.get(name)
        if found is None:
            raise InvalidExpression(
                f"no signal {name!r:.60} in the vocabulary {self.name}",
                mend=near_miss(name[:60], self.names()),
            )
        return found

    def knows(self, key: str) -> bool:
        """Whether a frame may contain this key: a signal or an object predicate."""
        return key in self.signals or self._predicate(key) is not None

    def unknown(
        self, key: str, other: str = "use a vocabulary that declares it"
    ) -> str:
        """Returns the error message for an unknown key; `other` is the fix if no signal
        has a similar name.
        """
        hint = near_miss(key[:60], self.names())
        hint = hint or f"leave it out, or {other}"
        return f"no signal {key!r:.60} in the vocabulary {self.name} ({hint})"

    def check_value(self, key: str, value: object) -> Value:
        """Converts a value to the signal's type; raises `SignalFault` if it
        is invalid.
        """
        return self.checker(key)(value)

    def checker(self, key: str) -> Callable[[object], Value]:
        """Returns a function that checks and converts the values of one signal, like
        `check_value`.
        """
        signal = self.signals.get(key)
        if signal is not None:
            return signal.check
        if self._predicate(key) is not None:
            return Signal(key, "bool").check

        def unknown(value: object) -> Value:
            raise SignalFault(self.unknown(key))

        return unknown

    def canonical(self, key: str) -> str:
        """Returns the normalized text of an object predicate; other names are returned
        unchanged.
        """
        return key if key in self.signals else self._predicate(key) or key

    def translate(self, row: Mapping[str, object]) -> dict[str, Value]:
        """Converts a row with our names or aliases to checked values of signals.

        Raises:
            SignalFault: A value is invalid, a name is unknown, or two names give
                different values for the same signal.
        """
        found: dict[str, Value] = {}
        for name, raw in row.items():
            key, value = self.canonical(name), raw
            alias = self.aliases.get(name)
            if alias is not None and (name not in self.signals or is_number(raw)):
                key, value = alias.signal, alias.convert(raw)
                for other, codes in alias.none_when.items():
                    if row.get(other) in codes:
                        value = None
            if is_number(value) and value in (0, 1) and self._is_bool(key):
                value = bool(value)
            checked = self.check_value(key, value)
            if key in found and found[key] != checked:
                raise SignalFault(
                    f"{name} and another column have different values for {key}"
                )
            found[key] = checked
        return found

    def _is_bool(self, key: str) -> bool:
        signal = self.signals.get(key)
        return signal.type == "bool" if signal else self._predicate(key) is not None

    def _predicate(self, key: str) -> str | None:
        call = _CALL.fullmatch(key.strip())
        predicate = self.predicates.get(call["name"]) if call else None
        if call is None or predicate is None:
            return None
        arguments = [part.strip() for part in call["arguments"].split(",")]
        if len(arguments) not in predicate.arities:
            return None
        if not all(OBJECT.fullmatch(part) for part in arguments):
            return None
        return f"{predicate.name}({', '.join(arguments)})"


class _SignalFile(Strict):
    type: SignalType
    unit: str | None = None
    range: list[float | None] | None = Field(default=None, min_length=2, max_length=2)
    values: list[str] | None = None
    none: str | None = None
    danger: Danger | None = None
    doc: str = ""

    @model_validator(mode="after")
    def _fits_its_type(self) -> _SignalFile:
        if self.type != "number" and (self.unit or self.range or self.danger):
            raise ValueError(
                f"a signal of type {self.type} cannot have a unit, a range or a danger"
            )
        if self.type != "enum" and self.values is not None:
            raise ValueError(f"a signal of type {self.type} cannot have 'values'")
        if self.values is not None:
            if not self.values:
                raise ValueError(
                    "'values' must not be empty; omit it to allow any name"
                )
            if len(set(self.values)) < len(self.values):
                raise ValueError("a value appears twice in 'values'")
            for value in self.values:
                if not _NAME.fullmatch(value) or value == "none":
                    raise ValueError(f"{value!r} is not a valid name for a value")
        if self.range:
            low, high = self.range
            if low is not None and high is not None and low > high:
                raise ValueError("the lower bound of 'range' is above the upper bound")
        return self


_Code = Annotated[int, Field(ge=-(2**53), le=2**53)]


class _AliasFile(Strict):
    signal: str
    unit: str | None = None
    scale: float = Field(default=1.0, gt=0)
    codes: dict[_Code, bool | str] | None = None
    none_codes: list[float] = []
    none_when: dict[str, list[float]] = {}
    doc: str = ""


class _PredicateFile(Strict):
    arities: list[Literal[1, 2]] = Field(min_length=1)
    doc: str = ""


class _VocabularyFile(Strict):
    format: Literal["forewarn.vocabulary/1"]
    name: str
    doc: str = ""
    signals: dict[str, _SignalFile]
    inputs: dict[str, list[str]] = {}
    predicates: dict[str, _PredicateFile] = {}
    aliases: dict[str, _AliasFile] = {}


@checked
def load_vocabulary(name_or_path: str | Path) -> Vocabulary:
    """Loads a built-in vocabulary by name, or a vocabulary from a YAML file."""
    if name_or_path in SHIPPED:
        return _shipped(str(name_or_path))
    path = Path(name_or_path)
    if path.suffix not in YAML and not os.path.exists(path):
        raise InvalidVocabulary(
            f"there is no vocabulary {str(name_or_path)!r:.80}",
            mend=near_miss(str(name_or_path), SHIPPED)
            or f"give {' or '.join(SHIPPED)}, or the path of a YAML file",
        )
    return vocabulary_from(read_yaml(path), str(path))


def named_vocabulary(name: str, source: str, folder: Path | None = None) -> Vocabulary:
    """Loads the vocabulary that a file refers to.

    Args:
        name: The name of a built-in vocabulary, or the path of a YAML file.
        source: The file that refers to the vocabulary, for error messages.
        folder: The folder that relative paths start from and must stay in; None if only
            built-in vocabularies are allowed.
    """
    if name in SHIPPED:
        return _shipped(name)
    if folder is None or not name.endswith(YAML):
        raise InvalidVocabulary(
            f"{name!r:.60} is not a built-in vocabulary",
            source=source,
            mend=near_miss(name[:60], SHIPPED)
            or (
                "give the path of its YAML file"
                if folder
                else f"use {' or '.join(SHIPPED)}"
            ),
        )
    return load_vocabulary(inside(folder, name, source))


@cache
def _shipped(name: str) -> Vocabulary:
    path = Path(__file__).with_name(f"{name}.yaml")
    return vocabulary_from(read_yaml(path), f"vocabulary {name}")


def vocabulary_from(data: object, source: str) -> Vocabulary:
    """Creates a vocabulary from the content of a YAML file."""
    with naming(source):
        return _built(validated(_VocabularyFile, data, source, InvalidVocabulary))


def _built(file: _VocabularyFile) -> Vocabulary:
    signals = {name: _signal(name, entry) for name, entry in file.signals.items()}
    for each in dict.fromkeys(name for names in file.inputs.values() for name in names):
        name = f"{each}_age"
        signals.setdefault(
            name,
            Signal(name, "number", "s", 0.0, doc=f"time since {each} was produced"),
        )
    predicates = {
        name: ObjectPredicate(name, tuple(entry.arities), entry.doc)
        for name, entry in file.predicates.items()
    }
    _check_names(file, [*signals, *predicates])
    aliases = {
        name: _alias(name, entry, signals, file.aliases)
        for name, entry in file.aliases.items()
    }
    inputs = {bridge: tuple(names) for bridge, names in file.inputs.items()}
    return Vocabulary(file.name, signals, predicates, aliases, inputs, file.doc)


def _check_names(file: _VocabularyFile, names: Iterable[str]) -> None:
    for name in [*names, *file.aliases]:
        if not _NAME.fullmatch(name) or name in _RESERVED:
            raise InvalidVocabulary(f"{name!r:.60} cannot be the name of a signal")
    for name in file.predicates:
        if name in file.signals or name in file.aliases:
            raise InvalidVocabulary(
                f"{name!r} is both a signal and an object predicate"
            )


_RESERVED = frozenset(
    "and or not true false none always eventually once historically until since next"
    " any all s ms steps time_s sequence".split()
)


def _signal(name: str, entry: _SignalFile) -> Signal:
    low, high = entry.range or (None, None)
    return Signal(
        name=name,
        type=entry.type,
        unit=entry.unit,
        low=low,
        high=high,
        values=tuple(entry.values or ()),
        may_be_none=entry.none is not None,
        none_means=entry.none or "",
        danger=entry.danger,
        doc=entry.doc,
    )


def _alias(
    name: str,
    entry: _AliasFile,
    signals: Mapping[str, Signal],
    aliases: Mapping[str, _AliasFile],
) -> Alias:
    place = f"aliases.{name}"
    signal = signals.get(entry.signal)
    if signal is None:
        raise InvalidVocabulary(
            f"the vocabulary has no signal {entry.signal!r:.60}",
            place=place,
            mend=near_miss(entry.signal, signals),
        )
    codes = {float(code): value for code, value in (entry.codes or {}).items()}
    if signal.type == "bool" and not codes:
        codes = {0: False, 1: True}
    for value in codes.values():
        try:
            signal.check(value)
        except SignalFault as fault:
            raise InvalidVocabulary(str(fault), place=f"{place}.codes") from fault
    if signal.type == "enum" and not codes:
        raise InvalidVocabulary("an alias for an enum needs codes", place=place)
    if (entry.none_codes or entry.none_when) and not signal.may_be_none:
        raise InvalidVocabulary(f"{signal.name} cannot be none", place=place)
    for other in entry.none_when:
        if other not in aliases:
            raise InvalidVocabulary(
                f"the vocabulary has no alias {other!r:.60}",
                place=f"{place}.none_when",
                mend=near_miss(other, aliases),
            )
    return Alias(
        name=name,
        signal=entry.signal,
        unit=entry.unit or signal.unit,
        scale=entry.scale,
        codes=codes,
        none_codes=tuple(entry.none_codes),
        none_when={other: tuple(codes) for other, codes in entry.none_when.items()},
        doc=entry.doc,
    )


def vocabulary_reference(vocabulary: Vocabulary) -> str | dict[str, Any]:
    """Returns the name of a built-in vocabulary, or the embedded content of any other.

    The embedded content omits aliases and inputs, which are needed only to record
    traces.
    """
    name = vocabulary.name
    if name in SHIPPED and load_vocabulary(name) == vocabulary:
        return name
    return embedded(vocabulary)


def embedded(vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns the content of a vocabulary file, without parts that predicates do not
    use.
    """
    content: dict[str, Any] = {
        "format": "forewarn.vocabulary/1",
        "name": vocabulary.name,
        "signals": {s.name: _embedded_signal(s) for s in vocabulary.signals.values()},
    }
    if vocabulary.predicates:
        content["predicates"] = {
            predicate.name: {"arities": list(predicate.arities)}
            for predicate in vocabulary.predicates.values()
        }
    return content


def _embedded_signal(signal: Signal) -> dict[str, Any]:
    found: dict[str, Any] = {"type": signal.type}
    if signal.unit is not None:
        found["unit"] = signal.unit
    if (signal.low, signal.high) != (None, None):
        found["range"] = [signal.low, signal.high]
    if signal.values:
        found["values"] = list(signal.values)
    if signal.may_be_none:
        found["none"] = signal.none_means
    if signal.danger:
        found["danger"] = signal.danger
    return found
