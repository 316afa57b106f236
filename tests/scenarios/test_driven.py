"""How episodes were driven, and pairs of them compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.guarding.listening import Run
from forewarn.plugins.contracts import Source
from forewarn.scenarios.measuring.pairs import compare, finished, handled, saved
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


def test_standing_is_timed_while_the_vehicle_is_slow() -> None:
    speeds = (20.0, 0.4, 0.0, 3.0, 0.0, 0.0)
    assert driven([(v,) for v in speeds], ["speed"]) == {
        "stationary_s": 1.5, "stands": True
    }  # fmt: skip
    assert driven([(0.0,), (9.0,)], ["speed"])["stands"] is False


def test_what_became_of_runs_is_said_with_the_violations_left() -> None:
    def run(seed: int, ended: str, broken: bool, stands: bool, s: float = 20.0) -> Any:
        reached = None if ended != "the ego arrived" else s
        facts = {"destination_s": reached, "stationary_s": s, "stands": stands}
        violations = (Broken("no_collision", 3.0, 3.0),) if broken else ()
        return Episode(
            seed=seed,
            mode="guarded",
            ended=ended,
            duration_s=s,
            frames=5,
            violations=violations,
            facts=facts,
        )

    hit, arrived, limit = "they collided", "the ego arrived", "30 s had passed"
    before = [
        run(1, hit, True, True, 5.0), run(2, arrived, False, False),
        run(3, arrived, False, False), run(4, arrived, True, False),
    ]  # fmt: skip
    after = [
        run(1, arrived, False, False), run(2, limit, False, True, 21.0),
        run(3, arrived, False, False, 23.0), run(4, arrived, False, False, 21.0),
    ]  # fmt: skip
    found = compare(before, after, load_scenario("tiny-road"))
    # Nobody knows how long the run would have taken that a collision ended.
    assert (found["clean_pairs"], found["prolonged"]) == (3, 2)
    assert found["outcomes"]["guarded"] == {
        "runs": 4, "violating": 0, "arrived": 3, "arrived_means": "arrive",
        "timed_out": 1, "standing": 1, "stationary_s": 85.0,
    }  # fmt: skip
    assert [saved(law) for law in found["laws"]] == ["", "2 of 2"]
    assert list(finished(found)) == [
        "Of 4 runs with the guard, 0 break a law (2 without); 3 arrive (3); 2 of 3 "
        "clean runs take more than 10 % longer; 1 stand still until the time "
        "limit (0)."
    ]


def test_driving_is_compared_in_pairs() -> None:
    def episode(
        seed: int, brakes: int, collided: bool, reached: float | None, others: int = 0
    ) -> Any:
        facts = {"hard_brakes": brakes, "collided": collided,
                 "others_collided": others, "destination_s": reached}  # fmt: skip
        return Episode(
            seed=seed,
            mode="guarded",
            ended="over",
            duration_s=10.0,
            frames=5,
            facts=facts,
        )

    before = [episode(1, 0, True, None), episode(2, 1, False, 20.0)]
    after = [episode(2, 3, False, 25.0, 3), episode(1, 1, False, 30.0)]
    found = compare(before, after, load_scenario("tiny-road"))["driving"]
    assert found["collided"] == {"unguarded": 0.5, "guarded": 0.0}
    assert found["hard_brakes"] == {"unguarded": 0.5, "guarded": 2.0}
    assert found["destination_s"] == {
        "pairs": 1, "of": 2, "arrived": {"unguarded": 1, "guarded": 2},
        "unguarded": 20.0, "guarded": 25.0, "ratio": pytest.approx(1.25),
    }  # fmt: skip
    assert list(handled(found)) == [
        "Collisions per run: 0.500 without, 0.000 with.",
        "Hard braking events per run, above 4.5 m/s²: 0.500 without, 2.000 with.",
        "Collisions between other vehicles per run: 0.000 without, 1.500 with.",
        "Time to the destination, if both runs arrived (1 pairs): 20.0 s without, "
        "25.0 s with.",
    ]
    never = [episode(1, 0, True, None)]
    gone = compare(never, never, load_scenario("tiny-road"))["driving"]
    assert not any("if both runs arrived" in each for each in handled(gone))
    assert list(handled({})) == []
    del gone["others_collided"]
    assert list(handled(gone))[-1] == (
        "The world does not report collisions between other vehicles."
    )
    plain = [Episode(seed=1, mode="guarded", ended="over", duration_s=10.0, frames=5)]
    assert compare(plain, plain, load_scenario("tiny-road"))["driving"] == {}
