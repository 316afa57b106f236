"""The ego's body: Apollo's pose is that of the middle of the rear axle."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Body:
    """How far the body reaches from the middle of the rear axle.

    The defaults are those of the car that Apollo is configured for.
    """

    front_m: float = 3.89
    back_m: float = 1.043
    width_m: float = 2.11

    @property
    def length_m(self) -> float:
        """From bumper to bumper."""
        return self.front_m + self.back_m

    @classmethod
    def of(cls, length_m: float, width_m: float) -> Body:
        """A body of that size with the default's rear overhang."""
        back_m = cls().back_m
        return cls(length_m - back_m, back_m, width_m)
