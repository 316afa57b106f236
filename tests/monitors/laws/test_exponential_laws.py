"""The laws with a clock of their own, against plain Python that says the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.laws.monitor import Monitor
from tests.monitors.laws.named import load_law

Frames = Sequence[dict[str, Any]]
Holds = Callable[[Frames, int], bool]

STANDS_KMH, LEAD_STANDS_KMH = 0.5, 1.8  # half a metre a second


def some(frames: Frames, first: int, last: int, test: Callable[..., bool]) -> bool:
    return any(test(frame) for frame in frames[max(first, 0) : last + 1])


def below(value: float | None, bound: float) -> bool:
    return value is not None and value <= bound


def law_47(frames: Frames, i: int) -> bool:
    """A second a frame."""
    now = frames[i]
    if not now["overtaking"]:
        return True
    warned = (
        some(frames, i - 1, i + 2, lambda f: f["horn_on"])
        or (now["high_beam_on"] and some(frames, i, i + 2, lambda f: f["low_beam_on"]))
        or (now["low_beam_on"] and some(frames, i, i + 2, lambda f: f["high_beam_on"]))
    )

    def moves_in(frame: dict[str, Any]) -> bool:
        near = frame["nearest_distance"]
        room = near is None or near >= 5.0
        return frame["turn_signal"] == "right" and frame["lane_changing"] and room

    back = some(frames, i, i + 10, moves_in)
    return now["turn_signal"] == "left" and warned and back


def law_51_4(frames: Frames, i: int) -> bool:
    """Half a second a frame."""
    now = frames[i]

    def lead_moves(frame: dict[str, Any]) -> bool:
        speed = frame["lead_speed"]
        return speed is not None and speed > LEAD_STANDS_KMH

    free = not below(now["lead_distance"], 8.0) or some(frames, i, i + 4, lead_moves)
    if now["traffic_light"] != "green" or not free:
        return True
    moves = some(frames, i, i + 6, lambda f: f["speed"] > STANDS_KMH)
    return moves and not below(now["lead_distance"], 0.5)


def law_51_6(frames: Frames, i: int) -> bool:
    """Half a second a frame."""
    now = frames[i]

    def lead_stands(frame: dict[str, Any]) -> bool:
        speed = frame["lead_speed"]
        return speed is not None and speed < LEAD_STANDS_KMH

    triggered = (
        now["direction"] == "right"
        and below(now["lead_distance"], 2.0)
        and some(frames, i, i + 4, lead_stands)
    )
    return not triggered or some(frames, i, i + 6, lambda f: f["speed"] < STANDS_KMH)


def law_59(frames: Frames, i: int) -> bool:
    """Half a second a frame."""
    now = frames[i]
    night = now["time_of_day"] >= 20.0 or now["time_of_day"] <= 7.0
    crossing = below(now["crosswalk_distance"], 5.0) or (
        not now["signal_ahead"] and below(now["junction_distance"], 1.0)
    )
    if not (night and crossing):
        return True

    def flashed(first: str, then: str) -> bool:
        return any(
            frames[k][first] and some(frames, k, k + 6, lambda f: f[then])
            for k in range(i, min(i + 6, len(frames) - 1) + 1)
        )

    return flashed("high_beam_on", "low_beam_on") or flashed(
        "low_beam_on", "high_beam_on"
    )


TRUTH = st.booleans()
LAWS: dict[str, tuple[Holds, float, int, dict[str, Any], dict[str, Any]]] = {
    "47": (law_47, 1.0, 10, {
        "overtaking": TRUTH, "turn_signal": st.sampled_from(["left", "right", "off"]),
        "horn_on": TRUTH, "high_beam_on": TRUTH, "low_beam_on": TRUTH,
        "lane_changing": TRUTH, "nearest_distance": st.sampled_from([None, 4.0, 9.0]),
    }, {
        "overtaking": True, "turn_signal": "left", "horn_on": True,
        "lane_changing": False,
    }),
    "51_4": (law_51_4, 0.5, 6, {
        "traffic_light": st.sampled_from(["green", "red", None]),
        "lead_distance": st.sampled_from([None, 0.3, 0.5, 5.0, 8.0, 9.0]),
        "lead_speed": st.sampled_from([None, 0.0, 1.8, 2.0]),
        "speed": st.sampled_from([0.0, 0.5, 0.6]),
    }, {"traffic_light": "green", "lead_distance": None, "speed": 0.0}),
    "51_6": (law_51_6, 0.5, 6, {
        "direction": st.sampled_from(["right", "forward"]),
        "lead_distance": st.sampled_from([None, 1.0, 2.0, 2.1]),
        "lead_speed": st.sampled_from([None, 0.0, 1.8, 2.0]),
        "speed": st.sampled_from([0.0, 0.5, 9.0]),
    }, {"direction": "right", "lead_distance": 1.0, "lead_speed": 0.0, "speed": 9.0}),
    "59": (law_59, 0.5, 12, {
        "crosswalk_distance": st.sampled_from([None, 5.0, 6.0]),
        "junction_distance": st.sampled_from([None, 0.5, 2.0]),
        "signal_ahead": TRUTH, "time_of_day": st.sampled_from([7.0, 12.0, 20.0]),
        "high_beam_on": TRUTH, "low_beam_on": TRUTH,
    }, {"crosswalk_distance": 5.0, "time_of_day": 20.0, "high_beam_on": False}),
}  # fmt: skip


@cache
def automaton(name: str) -> Automaton:
    return load_law(name).compile()


@st.composite
def drives(draw: st.DrawFn, name: str) -> list[dict[str, Any]]:
    """Begins where the law asks for something; now and then a few signals change."""
    *_, signals, trigger = LAWS[name]
    frame = {
        **draw(st.fixed_dictionaries(signals)),
        **draw(st.sampled_from([{}, trigger])),
    }
    frames: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 5))):
        frames += [frame] * draw(st.integers(1, 8))
        changed = draw(st.lists(st.sampled_from(sorted(signals)), max_size=3))
        frame = {**frame, **{each: draw(signals[each]) for each in changed}}
    return [*frames, frame]


@pytest.mark.parametrize("name", LAWS)
@settings(max_examples=60)
@given(data=st.data())
def test_a_law_says_what_its_definition_says(name: str, data: st.DataObject) -> None:
    holds, clock_s, ahead, *_ = LAWS[name]
    assert automaton(name).period_s == clock_s
    frames = data.draw(drives(name))
    monitor = Monitor(automaton(name))
    for frame in frames:
        monitor.step(frame)
    settled = range(len(frames) - ahead)
    wrong = [i for i in settled if not holds(frames, i)]
    found = monitor.violations
    if wrong:
        # It is known as soon as its time is over, or before.
        assert found and found[0].step <= wrong[0] + ahead
    if found:
        # Whatever comes after the violation, something before it was wrong.
        seen = frames[: found[0].step + 1]
        for more in (frames[found[0].step + 1 :], [seen[-1]] * ahead, []):
            longer = [*seen, *more, *[seen[-1]] * ahead]
            assert any(not holds(longer, i) for i in range(len(seen)))


OFF = {"turn_signal": "off", "lane_changing": False, "horn_on": False,
       "high_beam_on": False, "low_beam_on": False}  # fmt: skip
ASKED: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]] = {
    "47": (
        {**OFF, "overtaking": True, "turn_signal": "left", "nearest_distance": None},
        {**OFF, "overtaking": False, "nearest_distance": None},
        [
            {"horn_on": True},
            {"turn_signal": "right", "lane_changing": True},
            {"turn_signal": "right", "lane_changing": True, "nearest_distance": 4.9},
        ],
    ),
    "51_4": (
        {"traffic_light": "green", "lead_distance": 8.0, "lead_speed": 0.0,
         "speed": 0.0},
        {"traffic_light": "red", "lead_distance": 8.0, "lead_speed": 0.0,
         "speed": 0.0},
        [{"lead_speed": 1.9}, {"speed": 0.6}],
    ),
    "51_6": (
        {"direction": "right", "lead_distance": 2.0, "lead_speed": 9.0, "speed": 9.0},
        {"direction": "forward", "lead_distance": 2.0, "lead_speed": 9.0,
         "speed": 9.0},
        [{"lead_speed": 0.0}, {"speed": 0.0}],
    ),
    "59": (
        {**OFF, "crosswalk_distance": 5.0, "junction_distance": None,
         "signal_ahead": True, "time_of_day": 20.0},
        {**OFF, "crosswalk_distance": None, "junction_distance": None,
         "signal_ahead": True, "time_of_day": 20.0},
        [{"high_beam_on": True}, {"low_beam_on": True}],
    ),
}  # fmt: skip
"""Of each law: a frame that asks for something, one that does not, what may come."""


@pytest.mark.parametrize("name", LAWS)
def test_whatever_comes_at_whichever_moments(name: str) -> None:
    """One demand, and two events at all moments: every bound is met and just missed."""
    holds, _, ahead, *_ = LAWS[name]
    asks, quiet, events = ASKED[name]
    broken = kept = 0
    for before in (0, 1):
        for one, other in itertools.product(events, repeat=2):
            for first, second in itertools.combinations_with_replacement(
                range(ahead + 3), 2
            ):
                frames = [dict(quiet) for _ in range(before)] + [dict(asks)]
                frames += [dict(quiet) for _ in range(2 * ahead + 2)]
                frames[first].update(one)
                frames[second].update(other)
                monitor = Monitor(automaton(name))
                for frame in frames:
                    monitor.step(frame)
                right = holds(frames, before)
                assert right == (not monitor.violations), (first, second, one, other)
                broken, kept = broken + (not right), kept + right
    assert broken > 20 and kept > 20
