"""What an engine is asked, and must answer: two questions, for every state at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

from forewarn.monitors.checking.graphs import Mask

Values: TypeAlias = NDArray[Any]
"""One probability a state: doubles, or Fractions in an array of objects."""


@dataclass(frozen=True, slots=True, eq=False)
class Until:
    """How likely is `hold U[low,high] goal`? With what the graph says already.

    Args:
        hold: Where a path may be before it comes to the goal.
        goal: Where it must come to.
        low: Not before this step.
        high: Not after this step; None if whenever.
        never: Where the probability is 0 if `low` is put aside.
        surely: Where it is 1 if `low` is put aside.
    """

    hold: Mask
    goal: Mask
    low: int
    high: int | None
    never: Mask
    surely: Mask


class Engine(Protocol):
    """Computes probabilities that the graph of a chain does not settle alone."""

    @property
    def name(self) -> str:
        """As in `--engine`."""

    @property
    def exact(self) -> bool:
        """Whether it answers in Fractions."""

    def next(self, target: Mask) -> Values:
        """The probability, from every state, that the next one is in the target."""

    def until(self, question: Until) -> Values:
        """The probability of the question from every state."""
