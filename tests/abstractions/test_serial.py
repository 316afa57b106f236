"""Dataclasses to JSON and back."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.serial import from_json, to_json


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    span: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    seed: int
    parts: tuple[Part, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)


def test_nested_values_come_back_equal() -> None:
    whole = Whole(3, (Part("a", (0.5, 1.0)), Part("b")), {"stop": 2})
    content = to_json(whole)
    assert content["parts"][0] == {"name": "a", "span": [0.5, 1.0]}
    assert from_json(Whole, content) == whole


def test_a_wrong_field_is_named_with_its_file() -> None:
    with pytest.raises(InvalidInput, match=r"run\.json: parts\.0\.name: field requir"):
        from_json(Whole, {"seed": 1, "parts": [{}]}, "run.json")
