"""The effect of slowing and stopping, by risk band.

Runs are repeated from the first moment at which the risk was in a band: once without an
intervention, once with slowing, and once with stopping. A guard's decision quotes the
counts of its risk band, but does not depend on them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import Field, model_validator

from forewarn.abstractions.serial import Strict
from forewarn.monitors.evaluation.figures import CONFIDENCE, at_most

EDGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
"""The boundaries of the risk bands."""

WAYS = ("proceed", "slow", "stop")
"""The ways in which each run of a band is continued, named after decision kinds."""


class Band(Strict):
    """The number of runs whose risk reached a band, and how many of them broke a law.

    Args:
        risk: The lower end of the band (included) and the upper end (excluded).
        runs: The number of runs that reached the band.
        proceed: The number of runs that broke a law without an intervention.
        slow: The number of runs that broke a law when slowed.
        stop: The number of runs that broke a law when stopped.
    """

    risk: tuple[float, float]
    runs: int = Field(gt=0)
    proceed: int = Field(ge=0)
    slow: int = Field(ge=0)
    stop: int = Field(ge=0)

    @model_validator(mode="after")
    def _fits(self) -> Band:
        if self.risk not in itertools.pairwise(EDGES):
            raise ValueError(
                f"'risk' must be two consecutive values of {', '.join(map(str, EDGES))}"
            )
        if max(self.proceed, self.slow, self.stop) > self.runs:
            raise ValueError("the number of runs that broke a law exceeds 'runs'")
        return self

    def as_dict(self) -> dict[str, Any]:
        """Returns the band as JSON, with Clopper-Pearson bounds."""
        found: dict[str, Any] = {"risk": list(self.risk), "runs": self.runs}
        for way in WAYS:
            broke = getattr(self, way)
            low, high = interval(broke, self.runs)
            found[way] = {"broke": broke, "low": low, "high": high}
        return found


@lru_cache(maxsize=256)
def interval(part: int, whole: int) -> tuple[float, float]:
    """Returns the two-sided Clopper-Pearson interval for a fraction."""
    delta = (1 - CONFIDENCE) / 2
    low = 1 - at_most(whole - part, whole, delta)
    return round(low, 4), round(at_most(part, whole, delta), 4)


def number_of(risk: float) -> int:
    """Returns the number of the band that contains a risk."""
    return sum(risk >= edge for edge in EDGES[1:-1])


def band_of(bands: Sequence[Band], risk: float) -> Band | None:
    """Returns the band that contains a risk; None if no run reached the band."""
    if risk != risk:
        return None
    low = EDGES[number_of(risk)]
    return next((band for band in bands if band.risk[0] == low), None)


HEAD = ("risk", "runs", "break a law", "slowed", "stopped")
"""The columns of a table of bands."""


def if_acted(law: str) -> str:
    """Returns the title of the table that shows the bands of a law."""
    return (
        f"{law}: violations in runs that are repeated from their first moment in each"
        " risk band: without an intervention, slowed, and stopped (with 95 % bounds)."
    )


def cells(band: Mapping[str, Any]) -> tuple[object, ...]:
    """Returns a table row for a band in its JSON form."""
    low, high = band["risk"]
    return f"{low:g} to {high:g}", band["runs"], *(_share(band[way]) for way in WAYS)


def sentence(band: Mapping[str, Any]) -> str:
    """Describes a band, given in its JSON form, in a sentence."""
    low, high = band["risk"]
    alone, slowed, stopped = (_share(band[way]) for way in WAYS)
    return (
        f"Of {band['runs']} runs that reached a risk of {low:g} to {high:g}, {alone}"
        f" broke a law without an intervention, {slowed} when slowed, and {stopped}"
        " when stopped."
    )


def _share(found: Mapping[str, Any]) -> str:
    return f"{found['broke']} ({found['low']:.0%} to {found['high']:.0%})"


def by_law(found: Mapping[str, Sequence[Band]]) -> dict[str, list[dict[str, Any]]]:
    """Returns the bands of each law in their JSON form."""
    return {law: [band.as_dict() for band in bands] for law, bands in found.items()}
