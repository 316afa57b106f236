"""The laws with a clock of their own, against plain Python that says the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.laws.lawbook import load_law
from forewarn.monitors.laws.monitor import Monitor

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
LAWS: dict[str, tuple[Holds, float, int, dict[str, Any]]] = {
    "47": (law_47, 1.0, 10, {
        "overtaking": TRUTH, "turn_signal": st.sampled_from(["left", "right", "off"]),
        "horn_on": TRUTH, "high_beam_on": TRUTH, "low_beam_on": TRUTH,
        "lane_changing": TRUTH, "nearest_distance": st.sampled_from([None, 4.0, 9.0]),
    }),
    "51_4": (law_51_4, 0.5, 6, {
        "traffic_light": st.sampled_from(["green", "red", None]),
        "lead_distance": st.sampled_from([None, 0.3, 0.5, 5.0, 8.0, 9.0]),
        "lead_speed": st.sampled_from([None, 0.0, 1.8, 2.0]),
        "speed": st.sampled_from([0.0, 0.5, 0.6]),
    }),
    "51_6": (law_51_6, 0.5, 6, {
        "direction": st.sampled_from(["right", "forward"]),
        "lead_distance": st.sampled_from([None, 1.0, 2.0, 2.1]),
        "lead_speed": st.sampled_from([None, 0.0, 1.8, 2.0]),
        "speed": st.sampled_from([0.0, 0.5, 9.0]),
    }),
    "59": (law_59, 0.5, 12, {
        "crosswalk_distance": st.sampled_from([None, 5.0, 6.0]),
        "junction_distance": st.sampled_from([None, 0.5, 2.0]),
        "signal_ahead": TRUTH, "time_of_day": st.sampled_from([7.0, 12.0, 20.0]),
        "high_beam_on": TRUTH, "low_beam_on": TRUTH,
    }),
}  # fmt: skip


@cache
def automaton(name: str) -> Automaton:
    return load_law(name).compile()


@st.composite
def drives(draw: st.DrawFn, signals: dict[str, Any]) -> list[dict[str, Any]]:
    """Frames of which each changes a little: obligations last a while."""
    frame = draw(st.fixed_dictionaries(signals))
    frames = [frame]
    for _ in range(draw(st.integers(0, 30))):
        names = draw(st.lists(st.sampled_from(sorted(signals)), max_size=3))
        frame = {**frame, **{name: draw(signals[name]) for name in names}}
        frames.append(frame)
    return frames


@pytest.mark.parametrize("name", LAWS)
@given(data=st.data())
def test_a_law_says_what_its_definition_says(name: str, data: st.DataObject) -> None:
    holds, clock_s, ahead, signals = LAWS[name]
    assert automaton(name).period_s == clock_s
    frames = data.draw(drives(signals))
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


@pytest.mark.parametrize("name", LAWS)
def test_each_is_broken_by_some_drive_and_kept_by_another(name: str) -> None:
    """The drives above would show nothing if neither could happen."""
    holds, _, _, signals = LAWS[name]
    from hypothesis import find, settings

    quick = settings(max_examples=2000, database=None)
    for wanted in (True, False):
        found = find(
            drives(signals),
            lambda frames, wanted=wanted: holds(frames, 0) == wanted,
            settings=quick,
        )
        assert holds(found, 0) == wanted
