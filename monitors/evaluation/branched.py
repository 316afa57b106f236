"""What slowing and stopping changed, by bands of the risk.

Runs are repeated from the first moment at which their risk was in a band: once left
alone, once slowed, once stopped. A guard's decision quotes the counts of its band. They
decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from forewarn.monitors.evaluation.figures import CONFIDENCE, at_most

EDGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Between these are the bands."""

WAYS = ("proceed", "slow", "stop")
"""What was done in each of a band's runs, as decisions are called."""


@dataclass(frozen=True, slots=True)
class Band:
    """The runs whose risk came into one band, and how many of them broke a law then.

    Args:
        risk: The band: from the first number on, up to the second.
        runs: How many runs came there.
        proceed: How many broke a law if nothing was done.
        slow: How many if they were slowed.
        stop: How many if they were stopped.
    """

    risk: tuple[float, float]
    runs: int
    proceed: int
    slow: int
    stop: int

    def as_dict(self) -> dict[str, Any]:
        """As in JSON, with the bounds of Clopper and Pearson."""
        found: dict[str, Any] = {"risk": list(self.risk), "runs": self.runs}
        for way in WAYS:
            broke = getattr(self, way)
            low, high = interval(broke, self.runs)
            found[way] = {"broke": broke, "low": low, "high": high}
        return found


@lru_cache(maxsize=256)
def interval(part: int, whole: int) -> tuple[float, float]:
    """Clopper and Pearson's two-sided interval for a share."""
    delta = (1 - CONFIDENCE) / 2
    low = 1 - at_most(whole - part, whole, delta)
    return round(low, 4), round(at_most(part, whole, delta), 4)


def number_of(risk: float) -> int:
    """The number of the band that a risk is in."""
    return sum(risk >= edge for edge in EDGES[1:-1])


def band_of(bands: Sequence[Band], risk: float) -> Band | None:
    """The band of a risk, if runs came there."""
    if risk != risk:
        return None
    low = EDGES[number_of(risk)]
    return next((band for band in bands if band.risk[0] == low), None)


HEAD = ("risk", "runs", "break a law", "slowed", "stopped")
"""The columns of a table of bands."""


def if_acted(law: str) -> str:
    """The title of such a table."""
    return (
        f"{law}: runs from their first moment in each band of its risk, left alone,"
        " slowed, and stopped. In brackets: 95 % bounds."
    )


def cells(band: Mapping[str, Any]) -> tuple[object, ...]:
    """A band as a row of that table."""
    low, high = band["risk"]
    return f"{low:g} to {high:g}", band["runs"], *(_share(band[way]) for way in WAYS)


def sentence(band: Mapping[str, Any]) -> str:
    """For people; `band` as JSON has it."""
    low, high = band["risk"]
    alone, slowed, stopped = (_share(band[way]) for way in WAYS)
    return (
        f"Of {band['runs']} runs that came to a risk of {low:g} to {high:g}, {alone}"
        f" broke a law; slowed then, {slowed}; stopped then, {stopped}."
    )


def _share(found: Mapping[str, Any]) -> str:
    return f"{found['broke']} ({found['low']:.0%} to {found['high']:.0%})"


def by_law(found: Mapping[str, Sequence[Band]]) -> dict[str, list[dict[str, Any]]]:
    """The bands of each law, as in JSON."""
    return {law: [band.as_dict() for band in bands] for law, bands in found.items()}
