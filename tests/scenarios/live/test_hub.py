"""What the server keeps: a minute, whatever comes, for viewers of any pace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.scenarios.live.server import (
    APART_S,
    MINUTE_S,
    MOST_EVENTS,
    MOST_MOMENTS,
    MOST_OUTLINED,
    MOST_OVER,
    Feed,
    Hub,
    View,
)


def line(*content: Any) -> bytes:
    return json.dumps(content).encode()


def frame(time_s: float | None, news: bool = False, mark: int = 0) -> bytes:
    return line("frame", time_s, news, "proceed", "", None, [], "0", False, [mark])


def begun(hub: Hub) -> Feed:
    feed = Feed(hub)
    feed.take(line("begin", {"name": "run"}))
    return feed


def seen(view: View) -> list[list[Any]]:
    return [json.loads(each) for each in view.news()]


def times(heard: list[list[Any]]) -> list[float]:
    return [each[2] for each in heard if each[1] == "frame"]


def test_late_viewer_sees_the_last_minute() -> None:
    hub = Hub()
    feed = begun(hub)
    for i in range(1200):
        feed.take(frame(i / 10))
    found = times(seen(View(hub)))
    assert found[0] == pytest.approx(119.9 - MINUTE_S, abs=0.11)
    assert found[-1] == 119.9
    assert 600 <= len(found) <= 601, "ten a second, and not one is missing"


@given(
    steps=st.lists(
        st.tuples(st.floats(0.0, 3.0), st.booleans(), st.booleans()), max_size=200
    )
)
def test_a_viewer_of_any_pace_ends_with_the_newest_moment(
    steps: list[tuple[float, bool, bool]],
) -> None:
    hub = Hub()
    feed, view = begun(hub), View(hub)
    heard: list[list[Any]] = []
    time_s, news_marks = 0.0, []
    for mark, (step, news, looks) in enumerate(steps):
        time_s += step
        feed.take(frame(time_s, news, mark))
        if news:
            news_marks.append((time_s, mark))
        if looks:
            heard += seen(view)
    heard += seen(view)
    late = seen(View(hub))
    marks = [each[10][0] for each in heard if each[1] == "frame"]
    assert marks == sorted(set(marks)), "each once, in order"
    if steps:
        assert marks[-1] == len(steps) - 1
        assert [e for e in late if e[1] == "frame"][-1] == heard[-1]
    kept = [each[10][0] for each in late if each[1] == "frame"]
    fresh = [mark for at, mark in news_marks if at >= time_s - MINUTE_S]
    assert set(fresh) <= set(kept), "what is news stays"


@given(st.lists(st.floats(0.0, 0.01), min_size=1, max_size=300))
def test_moments_that_follow_closely_take_one_place(steps: list[float]) -> None:
    hub = Hub()
    feed, time_s = begun(hub), 0.0
    for step in steps:
        time_s += step
        feed.take(frame(time_s))
    assert len(times(seen(View(hub)))) <= time_s / APART_S + 2


def test_a_clock_that_stands_or_is_none_fills_nothing() -> None:
    hub = Hub()
    feed = begun(hub)
    for i in range(2 * MOST_MOMENTS):
        feed.take(frame(None, news=i % 2 == 0))
        feed.take(line("event", 0.0, "alert", "again"))
    found = seen(View(hub))
    assert sum(each[1] == "frame" for each in found) <= MOST_MOMENTS
    assert sum(each[1] == "event" for each in found) <= MOST_EVENTS


def test_number_of_finished_runs_kept_is_limited() -> None:
    hub = Hub()
    view, held = View(hub), set[int]()
    for _ in range(3 * MOST_OVER):
        feed = begun(hub)
        for i in range(600):
            feed.take(frame(i / 10))
        feed.take(line("end", "it arrived", 0))
        for number, kind, *_ in seen(view):
            (held.discard if kind == "gone" else held.add)(number)
    assert len(hub.runs) <= MOST_OVER + 1
    assert held == set(hub.runs)
    late = [each for each in seen(View(hub)) if each[1] == "frame"]
    assert len(late) <= (MOST_OUTLINED + 1) * (MOST_OVER + 1)


def test_a_loop_that_is_gone_leaves_a_run_that_is_over() -> None:
    hub = Hub()
    feed = begun(hub)
    feed.take(frame(1.0))
    feed.lost()
    lost = "The connection to the guarded loop was lost"
    assert seen(View(hub))[-1] == [1, "end", lost, 0]


@pytest.mark.parametrize(
    "message",
    [
        b"{}",
        b"[]",
        b"3",
        b"x",
        b"\xff",
        b'["frame"]',
        b'["begin",3]',
        b'["other",{}]',
        b'["drift",1,"",[]]',
    ],
)
def test_invalid_message_is_rejected(message: bytes) -> None:
    feed = begun(Hub())
    with pytest.raises(ValueError):
        feed.take(message)


def test_no_message_is_sent_before_a_run_begins() -> None:
    with pytest.raises(ValueError, match="a run in progress"):
        Feed(Hub()).take(frame(1.0))


def test_latest_drift_is_sent_once_and_to_late_viewers() -> None:
    hub = Hub()
    view, feed = View(hub), Feed(hub)
    for evidence in ("0.5", "0.7"):
        feed.take(json.dumps(["drift", False, evidence, []]).encode())
    newest = [0, "drift", False, "0.7", []]
    assert seen(view) == [newest] and seen(view) == []
    assert seen(View(hub)) == [newest]
