"""Dataclasses to JSON and back."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.serial import Strict, from_json, to_json, validated


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


class Inner(Strict):
    left: int
    right: int


class Outer(Strict):
    inner: Inner
    first: int
    second: int


def test_all_keys_that_are_missing_in_one_place_are_named() -> None:
    with pytest.raises(InvalidInput, match=r"also missing: second\)$"):
        validated(Outer, {"inner": {"left": 1, "right": 2}}, "a.yaml")
    with pytest.raises(InvalidInput, match=r"`left: …`; also missing: right\)$"):
        validated(Outer, {"inner": {}, "first": 1, "second": 2}, "a.yaml")
