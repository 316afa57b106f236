"""What tuning settles: horizons as they fare, thresholds, and what they promise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.monitors.risk.calibration import Calibration
from forewarn.monitors.risk.promise import Promise
from forewarn.monitors.trust.foretold import Foretold
from forewarn.scenarios.measuring.warning_times import Warned

WORSE = 0.02
"""So much less detected is as good as equal: it is within chance."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What the runs before those that were set aside say of one horizon.

    Args:
        horizon_s: The horizon.
        thresholds: The threshold of each law, where it stands alone.
        highest: Up to where a threshold detects as much.
        warned: How each law's warnings then fare.
        ahead_s: Of each law, how long before its trigger or, where that is mostly
            harmless, before its deadline the warnings came that came in time.
        harmless: The laws whose triggers are mostly harmless.
        calibration: What the risks of each law have meant.
        told: Every run under each law, as the model has its risks.
    """

    horizon_s: float
    thresholds: Mapping[str, float]
    highest: Mapping[str, float]
    warned: Mapping[str, Warned]
    ahead_s: Mapping[str, Sequence[float]]
    harmless: frozenset[str]
    calibration: Mapping[str, Calibration]
    told: Mapping[str, Sequence[Foretold]]

    @property
    def in_time(self) -> float:
        """The share of violations warned of in time, summed over laws."""
        return sum(
            len(self.ahead_s[law]) / max(len(each.violating), 1)
            for law, each in self.warned.items()
        )

    @property
    def mean_ahead_s(self) -> float:
        """How early the warnings come that come in time, on average."""
        times = [time_s for several in self.ahead_s.values() for time_s in several]
        return sum(times) / max(len(times), 1)

    def as_dict(self) -> dict[str, Any]:
        return {
            "horizon_s": self.horizon_s,
            "laws": [
                {
                    "law": law,
                    "threshold": _finite(self.thresholds[law]),
                    "plateau": [
                        _finite(self.thresholds[law]), _finite(self.highest[law])
                    ],
                    "warned_in_time": len(self.ahead_s[law]),
                    "harmless_trigger": law in self.harmless,
                    **warned.as_dict(self.horizon_s),
                }
                for law, warned in self.warned.items()
            ],
        }  # fmt: skip


def _finite(threshold: float) -> float | None:
    return threshold if math.isfinite(threshold) else None


@dataclass(frozen=True, slots=True)
class Settled:
    """What a policy is made of, and what it promises.

    Args:
        tried: Every horizon that was tried, the best first.
        thresholds: The threshold of each law that has one.
        promises: What each keeps.
        warned: How each fares on the runs that were set aside.
        ahead_s: As in `Tuned`, on the same runs.
        without: The laws that have none, and why.
        seeds: The runs of the calibration, and those that were set aside.
    """

    tried: tuple[Tuned, ...]
    thresholds: Mapping[str, float]
    promises: Mapping[str, Promise]
    warned: Mapping[str, Warned]
    ahead_s: Mapping[str, Sequence[float]]
    without: Mapping[str, str]
    seeds: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def best(self) -> Tuned:
        """The horizon that was taken."""
        return self.tried[0]

    def as_dict(self) -> dict[str, Any]:
        calibration, aside = self.seeds
        return {
            "horizon_s": self.best.horizon_s,
            "laws": [
                {
                    "law": law,
                    "threshold": self.thresholds[law],
                    "promise": self.promises[law].as_dict(),
                    "warned_in_time": len(self.ahead_s[law]),
                    "harmless_trigger": law in self.best.harmless,
                    **warned.as_dict(self.best.horizon_s),
                }
                for law, warned in self.warned.items()
            ],
            "without_threshold": dict(self.without),
            "tried": [each.as_dict() for each in self.tried],
            "seeds": {"calibration": list(calibration), "set_aside": list(aside)},
        }


def best_first(found: Iterable[Tuned]) -> list[Tuned]:
    """Most in time first; of those about as good, the one that warns earlier."""
    left = sorted(found, key=lambda each: (-each.in_time, each.horizon_s))
    ordered: list[Tuned] = []
    while left:
        equals = [e for e in left if e.in_time >= left[0].in_time - WORSE]
        best = max(equals, key=lambda each: each.mean_ahead_s)
        ordered.append(best)
        left.remove(best)
    return ordered
