"""What an abstraction's file may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from forewarn.abstractions.schema import Strict

FORMAT = "forewarn.abstraction/1"

Latch = Literal["any", "all", "last"]

Lag = Annotated[float, Field(ge=0, le=60)]


class _PredicateFile(Strict):
    when: str
    latch: Latch = "last"
    lag_s: Lag | Annotated[list[Lag], Field(min_length=1)] = 0.0

    @property
    def lags_s(self) -> list[float]:
        """One predicate each: now, and so long ago."""
        return self.lag_s if isinstance(self.lag_s, list) else [self.lag_s]

    @model_validator(mode="before")
    @classmethod
    def _may_be_text_alone(cls, data: object) -> object:
        if isinstance(data, str):
            return {"when": data}
        if isinstance(data, dict):
            return data
        raise ValueError("write a condition, or a mapping with when, latch, lag_s")


class AbstractionFile(Strict):
    format: Literal["forewarn.abstraction/1"]
    name: str
    vocabulary: str | dict[str, Any] | None = None
    period_s: float | None = Field(default=None, gt=0)
    scores: dict[str, str] = {}
    predicates: list[_PredicateFile] = Field(min_length=1)
    constraints: list[str] = []
    irreversible: list[str] = []
