"""Which laws ask to move, so that a stop would break them."""

from __future__ import annotations

import pytest

from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.lawbook import broken_by_standing, find_laws
from tests.monitors.laws.named import load_law


@pytest.mark.parametrize("name", ["38_1", "38_2_go_on", "38_3_turn"])
def test_standing_breaks_laws_that_demand_movement(name: str) -> None:
    assert broken_by_standing(load_law(name), 0.5)


@pytest.mark.parametrize("name", ["51_5", "38_2_stop", "53", "46_2", "no_collision"])
def test_most_laws_are_kept_by_standing(name: str) -> None:
    assert not broken_by_standing(load_law(name), 0.5)


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("always speed >= 20 km/h", True),
        ("always (in_junction -> speed >= 20 km/h)", False),
        ("always (in_junction -> eventually[0, 2 s] not in_junction)", False),
        ("always (in_junction -> eventually[0, 2 s] speed < 1 km/h)", False),
        (
            "always (in_junction -> eventually[0, 2 s]"
            " (speed > 1 km/h or not in_junction))",
            False,
        ),
        ("always not (speed < speed_limit_min)", False),
    ],
)
def test_only_what_the_speed_alone_decides_counts(text: str, broken: bool) -> None:
    (law,) = find_laws(f"mine := {text}", vocabulary=load_vocabulary("driving"))
    assert broken_by_standing(law, 0.5) is broken
