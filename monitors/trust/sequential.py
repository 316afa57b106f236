"""Estimating one fixed property: how many trials it takes, and when to stop."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput

F = TypeVar("F", float, NDArray[np.float64])


def okamoto(epsilon: float, delta: float) -> int:
    """Trials that suffice whatever the probability is: ln(2/delta) / (2 epsilon^2)."""
    check_risks(epsilon, delta)
    return math.ceil(math.log(2.0 / delta) / (2.0 * epsilon**2))


def massart(frequency: F, epsilon: float, delta: float) -> F:
    """H of Chen and Massart: the trials needed at a frequency of hits.

    H = 2/epsilon^2 ln(2/delta) (1/4 - (|1/2 - frequency| - 2 epsilon/3)^2), which is
    small where the frequency is close to 0 or 1.
    """
    off_middle = abs(0.5 - frequency) - 2.0 * epsilon / 3.0
    return 2.0 / epsilon**2 * math.log(2.0 / delta) * (0.25 - off_middle**2)


class SequentialEstimate:
    """A probability estimated from independent trials until it is known well enough.

    Feed it outcomes until `add` says that it may stop. At the first n >= H(n, hits)
    the frequency is within epsilon of the truth with probability 1 - delta. That is
    said of the frequency at that moment, so later outcomes are not counted.

    For runs that each end well or badly the frequency of bad ends is the probability
    that the learned chain gives, without smoothing; this rule is then the certificate,
    from where the runs started, and is far cheaper than `pac_report`.
    """

    def __init__(self, epsilon: float, delta: float) -> None:
        check_risks(epsilon, delta)
        self.epsilon, self.delta = epsilon, delta
        self.trials = self.hits = 0
        self.enough = False

    def add(self, outcome: bool) -> bool:
        """Counts one outcome; returns whether sampling may stop."""
        if not self.enough:
            self.trials += 1
            self.hits += bool(outcome)
            self.enough = self.trials >= self.needed
        return self.enough

    @property
    def estimate(self) -> float | None:
        """The frequency of hits; None before the first trial."""
        return self.hits / self.trials if self.trials else None

    @property
    def needed(self) -> int:
        """How many trials would be enough if the frequency stayed what it is."""
        if not self.trials:
            return okamoto(self.epsilon, self.delta)
        return math.ceil(massart(self.hits / self.trials, self.epsilon, self.delta))

    def sentence(self) -> str:
        """What may be said now."""
        if self.estimate is None:
            return f"Nothing is known yet; at most {self.needed} trials are needed."
        seen = f"{self.hits} of {self.trials} trials"
        if not self.enough:
            said = f"{seen}: too few to stop; at this rate {self.needed} are needed."
            if self.hits:
                return said
            most = 1.0 - self.delta ** (1.0 / self.trials)
            return f"{said} None seen leaves room for up to {most:.2g}."
        return (
            f"{seen}: the probability is {self.estimate:.4g}, off by at most "
            f"{self.epsilon:g} with probability {1 - self.delta:g}."
        )


def check_risks(epsilon: float, delta: float) -> None:
    """Refuses an error or an error probability that is not between 0 and 1."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0.0 < value < 1.0:
            raise InvalidInput(f"{name} is {value}; it must lie between 0 and 1")
