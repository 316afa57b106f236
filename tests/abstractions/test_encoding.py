"""Tables and tests say the same of every frame, however odd its values."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.encoding import compile_states
from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.expression import parse_expression
from forewarn.abstractions.expression.scalar import compile_test

PREDICATES = (
    "x < 3", "x <= 3", "x == 3", "x > -2 and not (x >= 7)", "y >= 0.5", "y > 0.5",
    "light == red", "light != red or light == green", 'light == ""', "wet",
    "not wet", "x < y", "x is none", "is_open(Door)", "wet -> light == red",
    "x < 3 and wet", "y > 0.5 and light == red and x <= 3 and not (x < -2)",
    "wet and wet == 1",
)  # fmt: skip
ODD: list[Any] = [
    3.0, math.nextafter(3, 4), math.nextafter(3, 2), -2.0, 7, 0.5, 0, 1, -0.0, 1.0,
    math.nan, math.inf, -math.inf, 1.7976931348623157e308, 10**400, -(10**400),
    True, False, None, "red", "green", "blue", "", "redx", "x", [], {}, object(),
]  # fmt: skip

values = st.dictionaries(
    st.sampled_from(["x", "y", "light", "wet", "is_open(Door)"]),
    st.sampled_from(ODD) | st.floats(),
)


@given(
    st.lists(st.sampled_from(PREDICATES), min_size=1, max_size=5, unique=True), values
)
def test_tables_and_tests_agree(texts: list[str], frame: dict[str, Any]) -> None:
    predicates = [parse_expression(text) for text in texts]
    encode = compile_states(predicates)
    try:
        expected: int | None = 0
        for i, node in enumerate(predicates):
            expected = (expected or 0) | compile_test(node)(frame) << i
    except (KeyError, SignalFault, TypeError, OverflowError):
        expected = None
    if expected is None:
        with pytest.raises(SignalFault):
            encode(frame)
    else:
        assert encode(frame) == expected


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("x", "said"),
    [
        ("absent", "x is missing"),
        (math.nan, "x is nan, not a finite number"),
        (math.inf, "x is inf, not a finite number"),
        ("fast", "a signal has the wrong type"),
    ],
)
def test_wrong_value_is_reported_by_every_encoder(
    count: int, x: Any, said: str
) -> None:
    texts = ("x < 3", "y >= 0.5", "y < 9")[:count]
    encode = compile_states([parse_expression(text) for text in texts])
    frame = {"y": 1.0} if x == "absent" else {"x": x, "y": 1.0}
    with pytest.raises(SignalFault, match=said):
        encode(frame)


def test_frame_with_a_missing_and_a_wrong_value_is_reported() -> None:
    encode = compile_states([parse_expression(text) for text in ("x < 3", "y < 9")])
    with pytest.raises(SignalFault):
        encode({"x": "fast"})


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.data())
def test_two_cuts_are_exact_at_their_bounds(
    x: float, y: float, data: st.DataObject
) -> None:
    if math.isinf(x) or math.isinf(y):
        return
    one, two = (data.draw(st.sampled_from(["<", "<=", ">", ">="])) for _ in "ab")
    bound = data.draw(st.floats(0, 1e9))
    predicates = [parse_expression(f"{name} {op} {bound!r}")
                  for name, op in (("x", one), ("y", two))]  # fmt: skip
    near = st.sampled_from(
        [bound, math.nextafter(bound, -1), math.nextafter(bound, 1e99)]
    )
    frame = {"x": data.draw(near | st.just(x)), "y": data.draw(near | st.just(y))}
    expected = [compile_test(node)(frame) for node in predicates]
    assert compile_states(predicates)(frame) == expected[0] | expected[1] << 1
