"""The random values of a scenario: named distributions, sampled once per episode.

A drawn value depends only on the episode's seed and the draw's name, so adding another
draw does not change it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from forewarn.abstractions.errors import InvalidInput, near_miss
from forewarn.abstractions.serial import Strict

MAX_INTEGER = 2**53
"""Every integer up to this one can be represented exactly as a double."""

Plain = int | float | bool | str | None


class Normal(Strict):
    """A normal distribution, truncated to [`low`, `high`] by rejection sampling."""

    mean: float
    sd: float = Field(ge=0)
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _can_be_met(self) -> Normal:
        if not self._admits(self.mean):
            raise ValueError("the mean must lie between low and high")
        return self

    def __str__(self) -> str:
        ends = (("from", self.low), ("to", self.high))
        cut = " ".join(f"{word} {end:g}" for word, end in ends if end is not None)
        return f"mean {self.mean:g}, sd {self.sd:g}" + (f", {cut}" if cut else "")

    def _admits(self, value: float) -> bool:
        above = self.low is None or value >= self.low
        return above and (self.high is None or value <= self.high)

    def sample(self, rng: np.random.Generator) -> float:
        """Samples one value; returns the mean if truncation leaves almost no
        probability.
        """
        for _ in range(1000):
            value = float(rng.normal(self.mean, self.sd))
            if self._admits(value):
                return value
        return self.mean


class Draw(Strict):
    """One distribution, given by exactly one of its keys (`weights` may accompany
    `choice`).
    """

    uniform: tuple[float, float] | None = None
    integer: tuple[int, int] | None = None
    normal: Normal | None = None
    choice: list[Plain] | None = Field(default=None, min_length=1)
    chance: float | None = Field(default=None, ge=0, le=1)
    weights: list[float] | None = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Draw:
        named = {"uniform", "integer", "normal", "choice", "chance"}
        given = [key for key in sorted(named) if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of {', '.join(sorted(named))}")
        for bounds in (self.uniform, self.integer):
            if bounds is not None and bounds[0] > bounds[1]:
                raise ValueError("the lower bound is greater than the upper bound")
        if self.integer is not None and max(map(abs, self.integer)) > MAX_INTEGER:
            raise ValueError(
                f"integers must lie between -{MAX_INTEGER} and {MAX_INTEGER}"
            )
        if self.weights is not None and (
            self.choice is None
            or len(self.weights) != len(self.choice)
            or min(self.weights) < 0
            or sum(self.weights) <= 0
        ):
            raise ValueError(
                "weights must have one non-negative number for each choice"
            )
        return self

    def __str__(self) -> str:
        if self.normal is not None:
            return f"normal, {self.normal}"
        if self.chance is not None:
            return f"true with probability {self.chance:g}"
        if self.choice is not None:
            weighed = [f" (weight {weight:g})" for weight in self.weights or ()]
            weighed = weighed or [""] * len(self.choice)
            pairs = zip(self.choice, weighed, strict=True)
            return "one of " + ", ".join(f"{each}{weight}" for each, weight in pairs)
        kind = "uniform" if self.uniform is not None else "integer"
        low, high = self.uniform or self.integer or (0, 0)
        return f"{kind}, from {low:g} to {high:g}"

    def sample(self, rng: np.random.Generator) -> Plain:
        """Samples one value."""
        if self.uniform is not None:
            return float(rng.uniform(*self.uniform))
        if self.integer is not None:
            low, high = self.integer
            return int(rng.integers(low, high + 1))
        if self.normal is not None:
            return self.normal.sample(rng)
        if self.choice is not None:
            weights = None
            if self.weights is not None:
                weights = np.array(self.weights) / sum(self.weights)
            return self.choice[int(rng.choice(len(self.choice), p=weights))]
        return bool(rng.random() < (self.chance or 0.0))


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Returns an independent random generator for one purpose in one episode."""
    digest = hashlib.sha256(purpose.encode()).digest()
    words = [int.from_bytes(digest[i : i + 4], "big") for i in range(0, 16, 4)]
    return np.random.default_rng([seed, *words])


def draw_all(draws: Mapping[str, Draw], seed: int) -> dict[str, Plain]:
    """Samples the values for the episode with this seed."""
    return {name: d.sample(generator(seed, name)) for name, d in draws.items()}


HERE = "$here/"


def filled(settings: Any, drawn: Mapping[str, Plain], source: str, place: str) -> Any:
    """Returns the settings with every `$name` replaced by its drawn value.

    A path that begins with `$here/` is resolved relative to the folder of the file
    `source`.
    """
    if isinstance(settings, dict):
        return {
            key: filled(value, drawn, source, f"{place}.{key}")
            for key, value in settings.items()
        }
    if isinstance(settings, list):
        return [filled(value, drawn, source, place) for value in settings]
    if isinstance(settings, str) and settings.startswith(HERE):
        return str(Path(source).parent / settings.removeprefix(HERE))
    if isinstance(settings, str) and settings.startswith("$"):
        name = settings[1:]
        if name.startswith("{"):
            mend = f"write {settings.replace('{', '').replace('}', '')}"
            problem = f"names have no braces: {settings}"
            raise InvalidInput(problem, source=source, place=place, mend=mend)
        if name not in drawn:
            raise InvalidInput(
                f"no distribution is given for {settings}",
                source=source,
                place=place,
                mend=near_miss(name, drawn),
            )
        return drawn[name]
    return settings
