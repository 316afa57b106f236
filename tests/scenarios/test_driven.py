"""How episodes were driven, and pairs of them compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.listening import Run
from forewarn.plugins.contracts import Source
from forewarn.scenarios.measuring.pairs import compare, trips
from forewarn.scenarios.running.episode import Episode
from forewarn.scenarios.running.tracker import Driven
from forewarn.scenarios.schema import load_scenario

SIGNALS = ("acceleration", "collision", "destination_reached")


def driven(frames: Sequence[Sequence[Any]], provides: Sequence[str] = SIGNALS) -> Any:
    listener = Driven()
    for _ in range(2):  # what came before does not matter
        listener.began(Run("a run", Source("hand", "driving", tuple(provides), 0.5)))
        for i, values in enumerate(frames):
            frame = Frame(10.0 + i / 2, i, dict(zip(provides, values, strict=True)))
            listener.frame(frame, None, None)
    return listener.facts()


def test_hard_brakes_are_counted_as_they_begin() -> None:
    found = driven([(a, False, False) for a in (0.0, -5.0, -6.0, -1.0, -4.5, -4.6)])
    assert found == {"hard_brakes": 2, "collided": False, "destination_s": None}


def test_collisions_and_the_time_to_the_destination() -> None:
    found = driven([(0.0, False, False), (0.0, True, False), (0.0, False, True)] * 2)
    assert found == {"hard_brakes": 0, "collided": True, "destination_s": 1.0}


def test_a_world_that_does_not_provide_it_says_nothing_of_it() -> None:
    assert driven([(0.0,)], ["acceleration"]) == {"hard_brakes": 0}
    assert driven([()], []) == {}


def test_driving_is_compared_in_pairs() -> None:
    def episode(seed: int, brakes: int, collided: bool, reached: float | None) -> Any:
        facts = {"hard_brakes": brakes, "collided": collided, "destination_s": reached}
        return Episode(seed, "guarded", "over", 10.0, 5, facts=facts)

    before = [episode(1, 0, True, None), episode(2, 1, False, 20.0)]
    after = [episode(2, 3, False, 25.0), episode(1, 1, False, 30.0)]
    found = compare(before, after, load_scenario("tiny-road"))["driving"]
    assert found["collided"] == {"unguarded": 0.5, "guarded": 0.0}
    assert found["hard_brakes"] == {"unguarded": 0.5, "guarded": 2.0}
    assert found["destination_s"] == {
        "pairs": 1, "of": 2, "arrived": {"unguarded": 1, "guarded": 2},
        "unguarded": 20.0, "guarded": 25.0, "ratio": pytest.approx(1.25),
    }  # fmt: skip
    assert list(trips(found)) == [
        "Arrived: 1 of 2 without, 2 with.",
        "Time to the destination, where both arrived (1 pairs): 20.0 s without,"
        " 25.0 s with.",
    ]
    never = [episode(1, 0, True, None)]
    gone = compare(never, never, load_scenario("tiny-road"))["driving"]
    assert list(trips(gone)) == ["Arrived: 0 of 1 without, 0 with."]
    assert list(trips({})) == []
    plain = [Episode(1, "guarded", "over", 10.0, 5)]
    assert compare(plain, plain, load_scenario("tiny-road"))["driving"] == {}
