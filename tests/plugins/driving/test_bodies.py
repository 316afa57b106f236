"""Bodies touch where their shapes overlap, and are as far apart as their lines."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from forewarn.plugins.driving.scene import EGO_WIDTH_M, Mover, clearance, touches

places = st.floats(-12, 12)
turns = st.floats(-math.pi, math.pi)


@given(x=places, y=places, one=turns, other=turns, on_foot=st.booleans())
def test_bodies_meet_where_a_corner_or_an_edge_does(
    x: float, y: float, one: float, other: float, on_foot: bool
) -> None:
    """Against many points of the one, looked for in the other."""
    a = Mover("a", 0.0, 0.0, one, 0.0, 4.8, 1.8)
    b = Mover("b", x, y, other, 0.0, 0.6 if on_foot else 4.5, 0.5 if on_foot else 2.0)
    bx, by = (x, y) if on_foot else (
        x - b.length / 2 * math.cos(other), y - b.length / 2 * math.sin(other)
    )  # fmt: skip
    ax, ay = -a.length / 2 * math.cos(one), -a.length / 2 * math.sin(one)

    def inside(px: float, py: float, grow: float) -> bool:
        dx, dy = px - ax, py - ay
        along = dx * math.cos(one) + dy * math.sin(one)
        aside = -dx * math.sin(one) + dy * math.cos(one)
        return abs(along) <= a.length / 2 + grow and abs(aside) <= a.width / 2 + grow

    steps = [i / 10 - 0.5 for i in range(11)]
    points = [
        (
            bx + u * b.length * math.cos(other) - v * b.width * math.sin(other),
            by + u * b.length * math.sin(other) + v * b.width * math.cos(other),
        )
        for u in steps
        for v in steps
    ]
    if any(inside(px, py, -1e-6) for px, py in points):
        assert touches(a, b, on_foot=on_foot)
    elif not any(inside(px, py, 0.5) for px, py in points):
        assert not touches(a, b, on_foot=on_foot)


@given(x=st.floats(-60, 60), y=st.floats(-60, 60), one=turns, other=turns)
def test_who_is_farther_than_one_looks_is_not_there(
    x: float, y: float, one: float, other: float
) -> None:
    """Whatever their turns, and never nearer than their fronts allow."""
    a = Mover("a", 0.0, 0.0, one, 0.0, 4.8, 1.8)
    b = Mover("b", x, y, other, 0.0, 12.0, 2.5)
    apart = clearance(a, b)
    assert apart is not None
    assert apart >= math.hypot(x, y) - a.length - b.length - EGO_WIDTH_M - 1e-9
    assert clearance(a, b, 30.0) == (apart if apart <= 30.0 else None)
