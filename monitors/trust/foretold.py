"""What was foretold of runs, beside what came: skill, calibration, lead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.risk.calibration import Calibration, calibrated

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAD_S = 3.0
"""So long before a deadline there is time to do something."""


@dataclass(frozen=True, slots=True, eq=False)
class Foretold:
    """One run under one law, up to its first violation.

    Args:
        run: Its number.
        times_s: When each tick was.
        duration_s: How long the whole run lasted.
        risks: At each tick, by horizon.
        pairs: At each tick the monitor's state times the chain's size, and the chain's
            state; below 0 where that was never seen in training.
        unknown: Whether the state was one never seen in training.
        idle: Whether nothing was owed.
        broken_s: When the violation was certain, and when its obligation arose; None
            if the law was kept.
    """

    run: int
    times_s: Floats
    duration_s: float
    risks: Mapping[float, Floats]
    pairs: Ints
    unknown: Bools
    idle: Bools
    broken_s: tuple[float, float] | None

    def came_true(self, horizon_s: float) -> Bools:
        """Whether what was owed at a tick, or arose within H of it, went unmet."""
        if self.broken_s is None:
            return np.zeros(len(self.times_s), bool)
        happened: Bools = self.broken_s[1] <= self.times_s + horizon_s + 1e-9
        return happened


def skill(found: Sequence[Foretold], horizon_s: float, idle: bool) -> float:
    """How much better the risks are than the base rate: 1 is perfect, 0 no better.

    Args:
        found: The runs of one law.
        horizon_s: H.
        idle: Whether only ticks count at which nothing is owed yet.
    """
    error = events = count = 0.0
    for each in found:
        kept = each.idle if idle else np.ones(len(each.times_s), bool)
        true = each.came_true(horizon_s)[kept]
        error += float(((each.risks[horizon_s][kept] - true) ** 2).sum())
        events += float(true.sum())
        count += float(kept.sum())
    rate = events / max(count, 1.0)
    reference = count * rate * (1.0 - rate)
    return 1.0 - error / reference if reference > 0.0 else 0.0


def calibrate(found: Sequence[Foretold], horizon_s: float) -> Calibration:
    """What the risks of one law have meant in these runs."""
    return calibrated(
        np.concatenate([each.risks[horizon_s] for each in found]),
        np.concatenate([each.came_true(horizon_s) for each in found]),
        np.repeat(range(len(found)), [len(each.times_s) for each in found]),
    )


def early(found: Sequence[Foretold], horizon_s: float, allowed: float) -> Floats:
    """How early each violation is warned of, in seconds; NaN where it is not, in time.

    The threshold is such that at most the allowed share of clean runs has an alarm. In
    time is before the trigger or, where most triggers are harmless, so long before the
    deadline that there is time to do something.
    """
    tops = sorted(
        (float(each.risks[horizon_s].max(initial=0.0)) for each in found
         if each.broken_s is None), reverse=True,
    )  # fmt: skip
    spared = int(allowed * len(tops) + 1e-9)
    above = tops[spared] if spared < len(tops) else 0.0
    harmless, ahead_s = mostly_harmless(found), list[float]()
    for each in found:
        if each.broken_s is None:
            continue
        broken_s, since_s = each.broken_s
        alarms = np.flatnonzero(each.risks[horizon_s] > above)
        early_s = float("nan")
        if alarms.size:
            early_s = (broken_s if harmless else since_s) - each.times_s[alarms[0]]
        in_time = early_s >= LEAD_S if harmless else early_s > 0
        ahead_s.append(float(early_s) if in_time else float("nan"))
    return np.array(ahead_s)


def warned_in_time(
    found: Sequence[Foretold], horizon_s: float, allowed: float
) -> tuple[float, float]:
    """The share of violations warned of in time, and how early on average."""
    return shared(early(found, horizon_s, allowed))


def shared(early_s: Floats) -> tuple[float, float]:
    """The share of those that are warned of, and how early on average."""
    told = early_s[~np.isnan(early_s)]
    return told.size / max(early_s.size, 1), float(told.sum()) / max(told.size, 1)


def mostly_harmless(found: Sequence[Foretold]) -> bool:
    """Whether most runs that keep the law owe something for a while."""
    owing = [not each.idle.all() for each in found if each.broken_s is None]
    return sum(owing) > len(owing) / 2
