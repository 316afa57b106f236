"""What a baseline promises to the campaign that measures it beside the guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.readers.stored import Stored
from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.contracts import Source


class Baseline(Protocol):
    """Another way to tell that a law is at risk, to compare the guard with.

    What is registered makes one for a law and a source, and raises `InvalidInput`
    where it cannot judge that law. It sees what a guard sees, as it comes.
    """

    @property
    def thresholds(self) -> Sequence[float]:
        """The scores from which on it would alarm; more than one for a trade-off."""

    def reset(self) -> None:
        """Begins an episode."""

    def score(self, frame: Frame) -> float:
        """How alarming the episode is up to this frame; more is worse."""


@dataclass(frozen=True, slots=True)
class Lessons:
    """What a baseline may learn from: the runs that the guard's model was learned from.

    Args:
        traces: Where they are on file.
        period_s: The time between two of their frames.
        abstraction: The predicates of the guard's model.
        horizon_s: H of the guard's risk.
    """

    traces: tuple[Stored, ...]
    period_s: float
    abstraction: Abstraction
    horizon_s: float


@runtime_checkable
class LearningBaseline(Protocol):
    """What is registered for a baseline that is trained; its class, usually.

    It learns once a law, before anything is measured, and is then made of the law, the
    source and what it learned.
    """

    def learn(self, law: Law, lessons: Lessons) -> Mapping[str, Any]:
        """What it learned, as JSON can hold it; `InvalidInput` if it cannot."""

    def __call__(
        self, law: Law, source: Source, learned: Mapping[str, Any]
    ) -> Baseline:
        """The baseline that knows it."""
