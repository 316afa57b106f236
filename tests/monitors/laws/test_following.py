"""A law followed over frames: ticks of its own clock, gaps, and new episodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.monitor import FollowedLaw, Verdict
from tests.monitors.laws.named import load_law

OK, LATE = Verdict("ok", "idle"), Verdict("violated", "violated")


def waits(left: int) -> Verdict:
    return Verdict("pending", f"wait:{left}", left)


class Episode:
    """`always (a -> eventually[0, 1 s] b)` on a clock of half a second or slower."""

    def __init__(self, clock_s: float | None = None) -> None:
        law = load_law("answer := always (a -> eventually[0, 1 s] b)")
        self.followed = FollowedLaw(replace(law, clock_s=clock_s), 0.5)
        self.frames = 0

    def at(self, time_s: float, held: str = "") -> list[Verdict]:
        self.frames += 1
        values = {name: name in held for name in "ab"}
        return self.followed.frame(Frame(time_s, self.frames, values))


def test_each_frame_is_a_tick_where_the_clock_is_that_of_the_frames() -> None:
    episode = Episode()
    assert episode.followed.name == "answer"
    assert episode.followed.automaton.period_s == 0.5
    assert episode.at(7.0) == [OK]
    assert episode.at(7.5, "a") == [waits(2)]
    assert episode.at(8.0) == [waits(1)]
    assert episode.at(8.5) == [LATE]
    assert episode.followed.times_s == [7.0, 7.5, 8.0, 8.5]


def test_a_slower_clock_judges_only_at_its_ticks() -> None:
    episode = Episode(clock_s=1.0)
    assert episode.followed.automaton.period_s == 1.0
    assert episode.at(0.0) == [OK]
    assert episode.at(0.5, "a") == []
    assert episode.at(1.0) == [waits(1)]
    assert episode.at(1.5) == []
    assert episode.at(2.0) == [LATE]
    assert episode.followed.times_s == [0.0, 1.0, 2.0]


def test_while_no_frame_comes_all_stays_as_it_was_last_seen() -> None:
    episode = Episode()
    assert episode.at(0.0, "a") == [waits(2)]
    # The four ticks without a frame still show a, and so ask for b once more.
    missed = [waits(1), LATE, waits(2), waits(1)]
    assert episode.at(2.5, "b") == [*missed, OK]
    assert episode.at(3.0, "a") == [waits(2)]
    assert episode.followed.wait() == waits(1)
    assert episode.followed.times_s == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]


def test_a_slow_clock_waits_by_its_own_period() -> None:
    episode = Episode(clock_s=1.0)
    assert episode.at(0.0, "a") == [waits(1)]
    assert episode.followed.wait() == LATE
    assert episode.followed.times_s == [0.0, 1.0]


def test_an_end_repeats_the_last_frame_until_nothing_is_pending() -> None:
    owed, kept, broken, unseen = (Episode() for _ in range(4))
    for episode, frames in ((owed, "a-"), (kept, "ab"), (broken, "a--a")):
        for step, held in enumerate(frames):
            episode.at(step / 2, held)
    ends = [each.followed.finish() for each in (owed, kept, broken, unseen)]
    assert ends == [(1.0, 0.0), None, (1.0, 0.0), None]
    assert owed.followed.times_s == [0.0, 0.5, 1.0]
    assert kept.followed.times_s == [0.0, 0.5]
    assert broken.followed.times_s == [0.0, 0.5, 1.0, 1.5]
    assert unseen.followed.times_s == []


def test_a_gap_that_is_too_long_is_refused() -> None:
    episode = Episode()
    episode.at(0.0)
    assert len(episode.at(1001 * 0.5)) == 1001
    episode.followed.reset()
    episode.at(0.0)
    with pytest.raises(SignalFault, match="no frame arrived for 500 s"):
        episode.at(1002 * 0.5)


def test_reset_forgets_the_last_episode() -> None:
    episode = Episode()
    assert episode.at(5.0, "a") == [waits(2)]
    episode.followed.reset()
    assert episode.followed.times_s == []
    assert episode.at(0.0) == [OK]
    assert episode.followed.times_s == [0.0]


def test_reset_forgets_the_values_of_the_last_episode() -> None:
    law = load_law("rare := always count[0, 1 s](a) < 2")
    followed = FollowedLaw(law, 0.5)

    def at(time_s: float) -> str:
        (verdict,) = followed.frame(Frame(time_s, 1, {"a": True}))
        return verdict.status

    assert at(0.0) == "ok"
    followed.reset()
    assert [at(0.0), at(0.5)] == ["ok", "violated"]
