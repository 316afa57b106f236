"""Rates and times with 95 % confidence intervals, and guarantees for future runs.

Runs that were used for neither the model nor the threshold bound the alarm rate in
future runs that are drawn in the same way. The bound makes no assumption about the
chain, the Markov property or the calibration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from forewarn.abstractions.serial import Strict

Interval = tuple[float, float]

_Z = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution
_RESAMPLES = 1000


def rate(part: int, whole: int) -> float | None:
    """Returns a fraction; None if the total is zero."""
    return part / whole if whole else None


def wilson(part: float, whole: int) -> Interval | None:
    """Returns Wilson's interval for a fraction; None if the total is zero."""
    if not whole:
        return None
    share, weight = part / whole, _Z * _Z / whole
    middle = (share + weight / 2) / (1 + weight)
    half = math.sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)
    # The ends are exactly 0 or 1 where rounding could exclude the fraction from the
    # interval.
    low = 0.0 if part == 0 else middle - half
    return low, 1.0 if part == whole else middle + half


def spread(values: Sequence[float]) -> dict[str, float | None]:
    """Returns the mean, median, 10th percentile and maximum of times."""
    if not values:
        return dict.fromkeys(("mean", "median", "p10", "max"))
    array = np.asarray(values, np.float64)
    return {
        "mean": float(array.mean()),
        "median": float(np.median(array)),
        "p10": float(np.percentile(array, 10)),
        "max": float(array.max()),
    }


def bootstrap(
    runs: int, statistic: Callable[[NDArray[np.int64]], NDArray[np.float64]]
) -> Interval | None:
    """Returns the bootstrap percentile interval of a statistic over runs.

    Args:
        runs: The number of runs.
        statistic: Computes the statistic of each resample; NaN if undefined. Each row
            of its argument has the indices of the runs in one resample.
    """
    if not runs:
        return None
    draws = np.random.default_rng(0).integers(0, runs, (_RESAMPLES, runs))
    found = statistic(draws)
    found = found[~np.isnan(found)]
    if not found.size:
        return None
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def mean_interval(values: NDArray[np.float64]) -> Interval | None:
    """Returns the bootstrap interval of a mean over runs; runs with the value NaN are
    ignored.
    """

    def means(draws: NDArray[np.int64]) -> NDArray[np.float64]:
        drawn = values[draws]
        known = ~np.isnan(drawn)
        if known.all():
            whole: NDArray[np.float64] = drawn.mean(axis=1)
            return whole
        pairs = zip(drawn, known, strict=True)
        return np.array([row[k].mean() if k.any() else math.nan for row, k in pairs])

    return bootstrap(len(values), means)


CONFIDENCE = 0.95
"""The default confidence level, at which one in twenty guarantees may fail."""


class Promise(Strict):
    """The rates that a threshold guarantees for future runs, and the runs that support
    them.

    Args:
        false_alarms: Maximum fraction of clean runs with an alarm.
        missed: Maximum fraction of violating runs that are not detected; None if there
            were no violating runs.
        confidence: The confidence level of each of the two rates.
        clean: Number of clean runs that determined the threshold.
        alarmed: The number of clean runs with an alarm.
        violating: Number of violating runs.
        undetected: The number of violating runs that were not detected.
    """

    false_alarms: float = Field(ge=0, le=1)
    missed: float | None = Field(ge=0, le=1)
    confidence: float = Field(gt=0, lt=1)
    clean: int = Field(ge=0)
    alarmed: int = Field(ge=0)
    violating: int = Field(ge=0)
    undetected: int = Field(ge=0)

    @classmethod
    def of(
        cls,
        allowed: float,
        clean: int,
        alarmed: int,
        violating: int,
        undetected: int,
        confidence: float = CONFIDENCE,
        tried: int = 1,
    ) -> Promise:
        """Returns the guarantee for a threshold that depends only on the clean runs.

        Args:
            allowed: Maximum fraction of clean runs with an alarm.
            clean: Number of clean runs.
            alarmed: Number of clean runs with an alarm.
            violating: Number of violating runs.
            undetected: Number of violating runs that were not detected.
            confidence: The confidence level of the guarantee.
            tried: Number of candidates from which one was chosen with the same runs.
        """
        delta = (1 - confidence) / tried
        missed = at_most(undetected, violating, delta) if violating else None
        return cls(
            false_alarms=allowed, missed=missed, confidence=confidence, clean=clean,
            alarmed=alarmed, violating=violating, undetected=undetected,
        )  # fmt: skip

    def sentence(self, came: Mapping[str, Any] | None = None) -> str:
        """Returns the guarantee as text, with the figures measured in other runs.

        Args:
            came: The measured figures, as returned by `Warned.as_dict`; None if there
                are none.
        """
        said = (
            f"guaranteed with {100 * self.confidence:.3g} % confidence: a false-alarm"
            f" rate of at most {self.false_alarms:.2f}"
        )
        if self.missed is not None:
            said += f", at most {self.missed:.2f} of the violations missed"
        if came is None:
            return said
        rates = came["false_alarm_rate"], came["detection_rate"]
        alarmed, detected = rates
        shares = [] if alarmed is None else [f"false-alarm rate {alarmed:.2f}"]
        if detected is not None:
            shares.append(f"missed {1 - detected:.2f}")
        return f"{said}; measured: {', '.join(shares) or 'no runs'}"


def spared(clean: int, allowed: float, delta: float = 1 - CONFIDENCE) -> int | None:
    """Returns the maximum number of clean runs with an alarm at which the rate is still
    guaranteed.

    Consider a threshold that all but k of the clean runs stay below. The probability
    that more than the allowed fraction of future runs exceed this threshold equals the
    probability that a binomial variable with `clean` trials at the allowed rate is at
    most k. Returns None if not even k = 0 suffices.
    """
    from scipy.special import bdtr

    if allowed >= 1.0:
        return clean
    chances = bdtr(np.arange(clean + 1), clean, allowed)
    return int(np.count_nonzero(chances <= delta)) - 1 if chances[0] <= delta else None


def needed(allowed: float, delta: float = 1 - CONFIDENCE) -> int | None:
    """Returns the minimum number of clean runs for a guarantee; None if no number
    suffices.
    """
    if allowed <= 0.0:
        return None
    return 1 if allowed >= 1 else math.ceil(math.log(delta) / math.log1p(-allowed))


def at_most(part: float, whole: int, delta: float = 1 - CONFIDENCE) -> float:
    """Returns the one-sided upper Clopper-Pearson bound for a fraction."""
    from scipy.special import betaincinv

    return (
        1.0 if part >= whole else float(betaincinv(part + 1, whole - part, 1 - delta))
    )


def runs_for(part: int, allowed: float, delta: float = 1 - CONFIDENCE) -> int:
    """Returns the minimum number of runs that bounds a rate by `allowed`, with `part`
    failures.
    """
    return _fewest(lambda runs: at_most(part, runs, delta) <= allowed)


def suffices(
    part: int, whole: int, allowed: float, delta: float = 1 - CONFIDENCE
) -> int | None:
    """Returns the minimum number of runs that bounds a rate by `allowed`, if failures
    stay as frequent as `part` of `whole`; None if no number suffices.
    """
    if allowed <= 0 or (part and part >= allowed * whole):
        return None
    rate = part / whole if whole else 0.0
    return _fewest(lambda runs: at_most(rate * runs, runs, delta) <= allowed)


def _fewest(enough: Callable[[int], bool]) -> int:
    """Returns the smallest sufficient number of runs, provided that all larger numbers
    also suffice.
    """
    high = 1
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
