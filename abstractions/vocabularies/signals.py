"""Signals, object predicates and aliases: the entries of a vocabulary."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from forewarn.abstractions.errors import InvalidInput, SignalFault, near_miss
from forewarn.abstractions.frame import Value


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: the factor to the base unit, and the powers of the dimensions."""

    factor: Fraction
    powers: tuple[tuple[str, int], ...] = ()

    def times(self, other: Unit, sign: int = 1) -> Unit:
        """Returns the product of this unit and `other`, or the quotient if `sign` is
        -1.
        """
        powers = dict(self.powers)
        for base, power in other.powers:
            powers[base] = powers.get(base, 0) + sign * power
        kept = tuple(sorted((b, p) for b, p in powers.items() if p))
        return Unit(self.factor * other.factor**sign, kept)

    def same_kind(self, other: Unit) -> bool:
        return self.powers == other.powers


PLAIN = Unit(Fraction(1))

_M, _S = ("m", 1), ("s", 1)
_SPEED, _ACCELERATION = (("m", 1), ("s", -1)), (("m", 1), ("s", -2))

UNITS: dict[str, Unit] = {
    "": PLAIN,
    "m": Unit(Fraction(1), (_M,)),
    "km": Unit(Fraction(1000), (_M,)),
    "cm": Unit(Fraction(1, 100), (_M,)),
    "ms": Unit(Fraction(1, 1000), (_S,)),
    "s": Unit(Fraction(1), (_S,)),
    "min": Unit(Fraction(60), (_S,)),
    "h": Unit(Fraction(3600), (_S,)),
    "m/s": Unit(Fraction(1), _SPEED),
    "km/h": Unit(Fraction(5, 18), _SPEED),
    "mph": Unit(Fraction(44704, 100000), _SPEED),
    "m/s²": Unit(Fraction(1), _ACCELERATION),
    "m/s^2": Unit(Fraction(1), _ACCELERATION),
    "m/s2": Unit(Fraction(1), _ACCELERATION),
    "%": Unit(Fraction(1), (("%", 1),)),
}


def named_unit(name: str) -> Unit:
    """Returns the unit with this name; an unknown name becomes a new base unit."""
    return UNITS.get(name) or Unit(Fraction(1), ((name, 1),))


_SPELT = {
    "kph": "km/h", "kmh": "km/h", "kmph": "km/h", "mps": "m/s", "sec": "s",
    "secs": "s", "second": "s", "seconds": "s", "minute": "min", "minutes": "min",
    "hour": "h", "hours": "h", "meter": "m", "meters": "m", "metre": "m", "metres": "m",
    "percent": "%", "msec": "ms",
}  # fmt: skip
"""Other spellings of units, for error messages."""


def close_unit(word: str) -> str:
    """Returns a hint that names the unit that a word probably means; may be empty."""
    return near_miss(_SPELT.get(word.lower(), word), UNITS)


SignalType = Literal["number", "bool", "enum"]

Danger = Literal["rises", "falls"]
"""Whether danger rises or falls as a number rises; `none` means least danger."""

OBJECT = re.compile(r"[A-Za-z_]\w*(#\d+)?")
"""The name of an object: a type or any other word, or an instance such as `Mug#2`."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal: a named quantity with a type.

    An enum with empty `values` accepts any name as a value. If `danger` is given, a
    score that is learned from the signal respects it.
    """

    name: str
    type: SignalType
    unit: str | None = None
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    may_be_none: bool = False
    none_means: str = ""
    danger: Danger | None = None
    doc: str = ""

    def check(self, value: object) -> Value:
        """Converts a value to the type of the signal; raises `SignalFault` if it is
        invalid.
        """
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
    """The name of a signal in another system, and how to convert the values.

    A number in `none_codes` means `none`. Other numbers are looked up in `codes` or,
    without codes, multiplied by `scale`. The codes of a Boolean signal are 0 and 1 by
    default. `none_when` maps other aliases to codes: if one of those aliases has one of
    its codes, the value of this alias means `none`.
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
        """Returns an alias for a signal; its values may be in a different unit."""
        scale = 1.0
        if unit is not None:
            given, own = named_unit(unit), named_unit(signal.unit or "")
            if not given.same_kind(own):
                same = [each for each in UNITS if UNITS[each].same_kind(own)]
                raise InvalidInput(
                    f"{name!s:.60}: {unit!r:.20} is not a unit of {signal.name}, "
                    f"which {f'is in {signal.unit}' if signal.unit else 'has no unit'}",
                    mend=("" if unit in UNITS else close_unit(unit))
                    or (f"choose from {', '.join(same)}" if signal.unit else "omit it"),
                )
            scale = float(given.factor / own.factor)
        for code, told in (codes or {}).items():
            try:
                signal.check(told)
            except SignalFault as fault:
                mend = ""
                if isinstance(told, bool):
                    mend = "YAML reads off, on, no and yes as false or true: use quotes"
                raise InvalidInput(
                    f"{name!s:.60}: the code {code:g} has the value {told!r}, but "
                    f"{fault}",
                    mend=mend,
                ) from None
        if signal.type == "bool" and not codes:
            codes = {0.0: False, 1.0: True}
        return cls(name, signal.name, unit, scale, codes or {}, tuple(none_codes))

    def convert(self, value: object) -> object:
        """Converts a foreign value to the signal's unit and codes; does not check the
        result.
        """
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        if value in self.none_codes:
            return None
        if self.codes:
            if value not in self.codes:
                known = ", ".join(f"{code:g}" for code in self.codes)
                raise SignalFault(
                    f"{self.name} has no code {value!r:.60} (its codes are {known})"
                )
            return self.codes[value]
        return value * self.scale if self.scale != 1.0 else value
