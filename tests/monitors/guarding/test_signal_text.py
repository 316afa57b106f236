"""Signals are written as a JSON encoder would, whatever was written before."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.guarding.encoding import SignalText

encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 0, 1, 1.0, True, False, None, "", "1", [1], {"a": 1}]),
    st.integers(),
    st.text(max_size=5),
)
FRAMES = st.lists(st.dictionaries(st.sampled_from(["a", "b", "é\n"]), VALUES))


@given(FRAMES)
def test_a_text_is_that_of_the_encoder(frames: list[dict[str, Any]]) -> None:
    text = SignalText(encode)
    assert [text(frame) for frame in frames] == [encode(frame) for frame in frames]


@given(st.lists(VALUES, min_size=2, max_size=2), st.booleans())
def test_equal_values_of_other_types_are_encoded_again(
    values: list[Any], again: bool
) -> None:
    text = SignalText(encode)
    for value in [*values, *values] if again else values:
        assert text({"a": value}) == encode({"a": value})


@pytest.mark.parametrize("one", [0.0, -0.0, 0, False, 1, 1.0, True, None, "1"])
@pytest.mark.parametrize("other", [0.0, -0.0, 0, False, 1, 1.0, True, None, "1"])
def test_zeros_ones_and_booleans_are_distinguished(one: Any, other: Any) -> None:
    text = SignalText(encode)
    assert [text({"a": one}), text({"a": other})] == [
        encode({"a": one}), encode({"a": other}),
    ]  # fmt: skip


def test_changed_lists_are_encoded_again() -> None:
    text, inner = SignalText(encode), [1]
    assert text({"a": inner}) == '{"a":[1]}'
    inner.append(2)
    assert text({"a": inner}) == '{"a":[1,2]}'
    assert text({"a": 1}) == '{"a":1}'


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_number_that_is_none_is_written(value: float) -> None:
    text = SignalText(encode)
    assert text({"a": 1.0}) == '{"a":1.0}'
    with pytest.raises(ValueError, match="JSON compliant"):
        text({"a": value})
    assert text({"a": 1.0}) == '{"a":1.0}'


def test_a_name_is_a_string() -> None:
    with pytest.raises(TypeError):
        SignalText(encode)({1: 1.0})  # type: ignore[dict-item]


def test_other_signals_are_other_signals() -> None:
    text = SignalText(encode)
    for names in ("ab", "ba", "abc", "b", "", "ab"):
        frame = dict.fromkeys(names, 0.5)
        assert text(frame) == encode(frame)


@pytest.mark.parametrize("edge", [1e-5, 1e-4, 1e15, 1e16, 1e17, 5e-324, 1e308])
def test_where_exponents_begin_it_writes_them_as_the_encoder_does(edge: float) -> None:
    around = (math.nextafter(edge, 0), edge, math.nextafter(edge, math.inf))
    frame = {f"{sign}{i}": sign * x for i, x in enumerate(around) for sign in (1, -1)}
    assert SignalText(encode)(frame) == encode(frame)
