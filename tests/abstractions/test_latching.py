"""Latching: the same ticks one frame at a time and over whole traces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidTrace, SignalFault
from forewarn.abstractions.latching import Latcher, latch, look_back, tick_ends

LATCHES: Any = ("any", "all", "last")


def ticks_one_by_one(
    times: Any, states: Any, period_s: float, latches: Any = LATCHES
) -> tuple[list[int], list[int]]:
    latcher = Latcher(period_s, latches)
    found = [
        (i, tick)
        for i, (time, state) in enumerate(zip(times, states, strict=True))
        if (tick := latcher.frame(time, state)) is not None
    ]
    return [i for i, _ in found], [tick for _, tick in found]


@given(
    st.lists(st.integers(1, 40), max_size=60),
    st.floats(0, 1e6),
    st.sampled_from([0.001, 0.05, 0.1, 0.25, 0.3, 1.0]),
    st.sampled_from([0.01, 0.1, 0.0125]),
    st.lists(st.sampled_from(LATCHES), min_size=4, max_size=4),
    st.randoms(use_true_random=False),
)
def test_both_ways_give_the_same_ticks(
    gaps: list[int], start: float, period: float, unit: float, latches: Any, rng: Any
) -> None:
    times = np.array([start + unit * n for n in np.cumsum([0, *gaps])])
    if (np.diff(times) <= 0).any():
        return
    states = [rng.randrange(16) for _ in times]
    frames, ticks = ticks_one_by_one(times.tolist(), states, period, latches)
    ends = tick_ends(times, period)
    assert ends.tolist() == frames
    assert latch(np.array(states), ends, latches).tolist() == ticks


@given(
    st.lists(st.integers(1, 30), max_size=60),
    st.sampled_from([0.05, 0.1, 0.3]),
    st.lists(st.integers(0, 6), min_size=4, max_size=4),
    st.randoms(use_true_random=False),
)
def test_both_ways_look_back_to_the_same_ticks(
    gaps: list[int], period: float, lags: list[int], rng: Any
) -> None:
    times = 0.05 * np.cumsum([0, *gaps])
    states = [rng.randrange(16) for _ in times]
    latches: tuple[Any, ...] = ("any", "all", "last", "last")
    lags_s = [lag * period for lag in lags]
    latcher, told = Latcher(period, latches, lags_s), []
    for time, state in zip(times.tolist(), states, strict=True):
        ahead = latcher.peek(state)
        tick = latcher.frame(time, state)
        if tick is not None:
            assert latcher.missed or tick == ahead
            told.append(tick)
    ends = tick_ends(times, period)
    ticks = latch(np.array(states), ends, latches)
    assert look_back(ticks, times[ends], period, lags_s).tolist() == told


@given(
    st.lists(st.lists(st.integers(1, 30), max_size=9), min_size=1, max_size=4),
    st.sampled_from([0.05, 0.1, 0.3]),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
    st.randoms(use_true_random=False),
)
def test_runs_one_after_the_other_are_what_each_is_alone(
    runs: list[list[int]], period: float, lags: list[int], rng: Any
) -> None:
    lags_s = [lag * period for lag in lags]
    alone: list[list[int]] = []
    times, states = [], []
    for gaps in runs:
        times.append(0.05 * np.cumsum([rng.randrange(9), *gaps]))
        states.append(np.array([rng.randrange(8) for _ in times[-1]]))
        ends = tick_ends(times[-1], period)
        ticks = latch(states[-1], ends, LATCHES)
        alone.append(look_back(ticks, times[-1][ends], period, lags_s).tolist())
    starts = np.cumsum([0, *map(len, times[:-1])])
    every = np.concatenate(times)
    ends = tick_ends(every, period, starts)
    ticks = latch(np.concatenate(states), ends, LATCHES, starts)
    first = np.searchsorted(ends, starts)
    told = look_back(ticks, every[ends], period, lags_s, first)
    assert told.tolist() == [tick for run in alone for tick in run]
    assert np.diff(first, append=len(told)).tolist() == [len(run) for run in alone]


def test_a_lag_is_told_of_then_and_at_first_of_the_beginning() -> None:
    latcher = Latcher(0.1, ("last", "last"), (0.0, 0.3))
    shown = [0b10, 0b01, 0b11, 0b00, 0b00, 0b00]
    expected = [0b10, 0b11, 0b11, 0b10, 0b00, 0b10]
    for _ in range(2):
        found = [latcher.frame(i / 10, bits) for i, bits in enumerate(shown)]
        assert found == expected
        latcher.reset()
    assert look_back(np.empty(0, np.int64), np.empty(0), 0.1, (0.0, 0.3)).size == 0


@given(st.lists(st.integers(0, 7), min_size=1, max_size=30), st.integers(1, 5))
def test_a_tick_takes_any_all_or_the_last_of_its_frames(
    states: list[int], frames_a_tick: int
) -> None:
    times: Any = np.arange(len(states)) * 0.1
    ends = tick_ends(times, 0.1 * frames_a_tick)
    assert ends.tolist() == list(range(0, len(states), frames_a_tick))
    begin = 0
    for end, tick in zip(ends, latch(np.array(states), ends, LATCHES), strict=True):
        seen = states[begin : end + 1]
        assert bool(tick & 1) == any(state & 1 for state in seen)
        assert bool(tick & 2) == all(state & 2 for state in seen)
        assert tick & 4 == seen[-1] & 4
        begin = end + 1


def test_the_first_frame_is_a_tick_of_its_own() -> None:
    for time in (0.0, -3.0, 1e9):
        assert ticks_one_by_one([time], [5], 10.0) == ([0], [5])
        assert tick_ends(np.array([time]), 10.0).tolist() == [0]
    assert tick_ends(np.empty(0), 1.0).tolist() == []
    assert latch(np.empty(0), np.empty(0, np.int64), LATCHES).tolist() == []


def test_a_gap_makes_one_tick_and_counts_those_it_missed() -> None:
    latcher = Latcher(1.0, ("last",))
    missed = []
    for time in (0.0, 1.0, 4.5, 5.0, 7.0):
        assert latcher.frame(time, 1) == 1
        missed.append(latcher.missed)
    assert missed == [0, 0, 2, 0, 1]
    assert tick_ends(np.array([0.0, 1.0, 4.5, 5.0, 7.0]), 1.0).tolist() == [*range(5)]


def test_clocks_that_round_do_not_lose_ticks() -> None:
    times = np.cumsum([0.0] + [0.1] * 3000)
    assert tick_ends(times, 0.1).size == 3001
    assert tick_ends(times, 0.5).tolist() == list(range(0, 3001, 5))
    frames, _ = ticks_one_by_one(times.tolist(), [0] * 3001, 0.5)
    assert frames == list(range(0, 3001, 5))


@pytest.mark.parametrize("later", [1.0, 0.9, -5.0, math.nan, math.inf])
def test_time_that_does_not_increase_is_refused(later: float) -> None:
    latcher = Latcher(0.5, ("last",))
    latcher.frame(0.0, 0)
    latcher.frame(1.0, 1)
    with pytest.raises(
        SignalFault, match=r"the time must increase, but goes from 1\.0 to"
    ):
        latcher.frame(later, 1)
    with pytest.raises(
        InvalidTrace, match=r"frame 2: the time must increase, but goes from 1\.0 to"
    ):
        tick_ends(np.array([0.0, 1.0, later, 9.0]), 0.5)
    latcher.reset()
    assert latcher.frame(0.0, 1) == 1
    with pytest.raises(SignalFault):
        Latcher(0.5, ("last",)).frame(math.nan, 0)
