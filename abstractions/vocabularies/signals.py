"""Signals, object predicates and aliases: the entries of a vocabulary."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from forewarn.abstractions.errors import InvalidInput, SignalFault, near_miss
from forewarn.abstractions.frame import Value
from forewarn.abstractions.vocabularies.units import unit as unit_named

SignalType = Literal["number", "bool", "enum"]

OBJECT = re.compile(r"[A-Za-z_]\w*(#\d+)?")
"""An object: a type, an instance of it, or any other single word."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One named, typed quantity.

    An enum without `values` is open: any single name is a value of it.
    """

    name: str
    type: SignalType
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    may_be_none: bool = False
    none_means: str = ""
    doc: str = ""

    def check(self, value: object) -> Value:
        """The value as this signal holds it; raises `SignalFault` if it cannot."""
        if value is None:
            if self.may_be_none:
                return None
            raise SignalFault(f"{self.name} cannot be none")
        if self.type == "number":
            return self._check_number(value)
        if self.type == "bool":
            if isinstance(value, bool):
                return value
            raise SignalFault(f"{self.name} must be true or false, not {value!r:.60}")
        if isinstance(value, str) and (value in self.values or self._is_open(value)):
            return value
        mend = near_miss(str(value)[:60], self.values)
        raise SignalFault(
            f"{self.name} cannot be {value!r:.60}"
            + (f" ({mend})" if mend else self._choices())
        )

    def _check_number(self, value: object) -> float:
        number = float(value) if isinstance(value, float) else self._number(value)
        if not math.isfinite(number):
            raise SignalFault(f"{self.name} is not finite: {number}")
        if self.low is not None and number < self.low:
            raise SignalFault(
                f"{self.name} is {number:g}{self._unit()}, below its range"
                f" ({self.low:g} or more)"
            )
        if self.high is not None and number > self.high:
            raise SignalFault(
                f"{self.name} is {number:g}{self._unit()}, above its range"
                f" ({self.high:g} or less)"
            )
        return number

    def _number(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int):
            raise SignalFault(f"{self.name} must be a number, not {value!r:.60}")
        try:
            return float(value)
        except OverflowError:
            return math.inf

    def _is_open(self, value: str) -> bool:
        return not self.values and OBJECT.fullmatch(value) is not None

    def _unit(self) -> str:
        return f" {self.unit}" if self.unit else ""

    def _choices(self) -> str:
        return f" (one of {', '.join(self.values)})" if self.values else ""


@dataclass(frozen=True, slots=True)
class ObjectPredicate:
    """A Boolean signal over objects, such as `is_inside(Fork, Microwave)`."""

    name: str
    arities: tuple[int, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Alias:
    """Another system's name for a signal, with the coding that system uses.

    A number is first looked up in `none_codes`, then in `codes`, then multiplied by
    `scale`. Codes of a Boolean signal are 0 and 1. `none_when` names other aliases:
    where one of them has one of those codes, this value was a stand-in for `none`.
    """

    name: str
    signal: str
    unit: str | None = None
    scale: float = 1.0
    codes: Mapping[float, bool | str] = field(default_factory=dict)
    none_codes: tuple[float, ...] = ()
    none_when: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    doc: str = ""

    @classmethod
    def of(
        cls,
        name: str,
        signal: Signal,
        unit: str | None = None,
        codes: Mapping[float, bool | str] | None = None,
        none_codes: Sequence[float] = (),
    ) -> Alias:
        """Another name for a signal, whose numbers may come in another unit."""
        scale = 1.0
        if unit is not None:
            given, own = unit_named(unit), unit_named(signal.unit or "")
            if not given.same_kind(own):
                raise InvalidInput(
                    f"{name!r:.60} cannot be in {unit!r:.20}: {signal.name} is in"
                    f" {signal.unit or 'no unit'}"
                )
            scale = float(given.factor / own.factor)
        if signal.type == "bool" and not codes:
            codes = {0.0: False, 1.0: True}
        return cls(name, signal.name, unit, scale, codes or {}, tuple(none_codes))

    def convert(self, value: object) -> object:
        """The foreign value in the signal's own unit and coding, not yet checked."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if value in self.none_codes:
            return None
        if self.codes:
            if value not in self.codes:
                known = ", ".join(f"{code:g}" for code in self.codes)
                raise SignalFault(
                    f"{self.name} has no code {value!r:.60} (it has {known})"
                )
            return self.codes[value]
        return value * self.scale if self.scale != 1.0 else value
