"""Distributions that cannot be drawn from are refused when they are read."""

from typing import Any

import pytest
from pydantic import ValidationError

from forewarn.scenarios.draws import MAX_INTEGER, Draw, filled, generator


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        ({"integer": (0, MAX_INTEGER + 1)}, "integers must lie"),
        ({"integer": (-(10**30), 0)}, "integers must lie"),
        ({"integer": (2, 1)}, "the lower bound is greater than the upper bound"),
        ({"uniform": (2.0, 1.0)}, "the lower bound is greater than the upper bound"),
        ({}, "give exactly one of"),
        ({"chance": 0.5, "uniform": (0.0, 1.0)}, "give exactly one of"),
        ({"choice": [1.0, 2.0], "weights": [1.0]}, "weights must have one"),
        ({"choice": [1.0], "weights": [0.0]}, "weights must have one"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Draw(**draw)


def test_the_largest_integers_can_be_drawn() -> None:
    draw = Draw(integer=(MAX_INTEGER - 1, MAX_INTEGER))
    assert draw.sample(generator(1, "x")) in (MAX_INTEGER - 1, MAX_INTEGER)


def test_a_path_may_be_beside_the_scenarios_file() -> None:
    settings = {"map": "$here/maps/town.sumocfg", "files": ["$here/a.csv", "b.csv"]}
    assert filled(settings, {}, "/home/me/mine.yaml", "world") == {
        "map": "/home/me/maps/town.sumocfg",
        "files": ["/home/me/a.csv", "b.csv"],
    }
    assert filled("$here/a.csv", {}, "mine.yaml", "world") == "a.csv"
