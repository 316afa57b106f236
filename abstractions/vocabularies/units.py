"""Units and their exact conversion factors.

A unit is a product of powers of base dimensions with a rational factor, so that
`8 m/s` is exactly `28.8 km/h`. A name that the table does not know is a unit of
its own, equal to nothing but itself: users' vocabularies may invent units.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """A factor to the base units, and the powers of the dimensions."""

    factor: Fraction
    powers: tuple[tuple[str, int], ...] = ()

    def times(self, other: Unit, sign: int = 1) -> Unit:
        """The product with `other`, or the quotient when `sign` is -1."""
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


def unit(name: str) -> Unit:
    """The unit of that name; an unknown name is a unit of its own."""
    return UNITS.get(name) or Unit(Fraction(1), ((name, 1),))
