"""What really happened: when laws were broken, and when what was owed arose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.evaluation.warned import Broken
from forewarn.monitors.laws.lawbook import find_laws
from forewarn.plugins.contracts import Source
from forewarn.scenarios.running.tracker import Truth

SOURCE = Source("hand", "driving", ("speed", "collision", "horn_on"), 0.1)
STANDS = "stands := always (horn_on -> eventually[0, 0.3 s] speed < 1 km/h)"


DRIVING = load_vocabulary("driving")


def truth(*laws: str, source: Source = SOURCE) -> Truth:
    found = [law for text in laws for law in find_laws(text, vocabulary=DRIVING)]
    return Truth(found, source)


def run(found: Truth, rows: Sequence[tuple[bool, float, bool]]) -> list[Broken]:
    """Honking, speed and collision, a row a frame."""
    found.reset()
    for i, (horn, speed, collision) in enumerate(rows):
        values = {"horn_on": horn, "speed": speed, "collision": collision}
        found.frame(Frame(round(i * 0.1, 1), i, values))
    found.finish()
    return found.broken


def rows(text: str) -> list[tuple[bool, float, bool]]:
    """h honks, s stands, H both, x collides, . nothing of it."""
    return [(c in "hH", 0.0 if c in "sH" else 9.0, c == "x") for c in text]


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("....", []),
        ("h..s", []),
        ("h...", [(0.3, 0.0)]),
        (".h....", [(0.4, 0.1)]),
        ("hh....", [(0.3, 0.0)]),
        ("h.sh...", [(0.6, 0.3)]),
        ("h...h...", [(0.3, 0.0), (0.7, 0.4)]),
        # What is owed at the end is decided by repeating the last frame.
        ("h", [(0.3, 0.0)]),
        (".h", [(0.4, 0.1)]),
        ("H", []),
        ("h..", [(0.3, 0.0)]),
    ],
)
def test_an_obligation_has_its_trigger_and_its_violation(
    text: str, broken: list[tuple[float, float]]
) -> None:
    found = run(truth(STANDS), rows(text))
    assert [(round(b.time_s, 6), round(b.since_s, 6)) for b in found] == broken


def test_an_invariant_that_stays_broken_is_broken_once() -> None:
    found = run(truth("no_collision"), rows("..xxx..xx"))
    assert found == [
        Broken("no_collision", 0.2, 0.2),
        Broken("no_collision", 0.7, 0.7),
    ]


def test_each_law_is_judged_by_itself_and_each_episode_afresh() -> None:
    judge = truth(STANDS, "no_collision")
    for _ in range(2):
        found = run(judge, rows("h.x.."))
        assert {b.law for b in found} == {"stands", "no_collision"}
    assert run(judge, rows("...")) == []


def test_a_law_that_nothing_provides_for_does_not_apply() -> None:
    judge = truth("no_collision", "57")
    assert judge.names == ("no_collision",)
    assert "turn_signal" in judge.not_applicable["57"]


def test_a_law_with_a_slower_clock_loses_nothing_between_its_ticks() -> None:
    (law,) = find_laws("no_collision")
    judge = Truth([replace(law, clock_s=0.5)], SOURCE)
    assert run(judge, rows("..x.......")) == [Broken("no_collision", 0.5, 0.5)]


def test_time_passes_without_frames() -> None:
    judge = truth(STANDS)
    judge.reset()
    for i, (time_s, horn) in enumerate([(0.0, False), (0.1, True), (1.0, False)]):
        values = {"horn_on": horn, "speed": 9.0, "collision": False}
        judge.frame(Frame(time_s, i, values))
    (broken, *_) = judge.broken
    assert (round(broken.since_s, 6), round(broken.time_s, 6)) == (0.1, 0.4)
    gap = Frame(500.0, 9, {"horn_on": False, "speed": 9.0, "collision": False})
    with pytest.raises(SignalFault, match="no frame arrived for"):
        judge.frame(gap)


TRUTH = truth(STANDS)


@given(st.text("hsH.", max_size=12))
def test_it_agrees_with_the_law_read_aloud(text: str) -> None:
    """First violations; the trace goes on with its last frame repeated."""
    first = next(iter(run(TRUTH, rows(text))), None)
    extended = rows(text) + rows(text)[-1:] * 4
    owed = [
        i
        for i, (horn, _, _) in enumerate(rows(text))
        if horn and all(speed >= 1 for _, speed, _ in extended[i : i + 4])
    ]
    if not owed:
        assert first is None
        return
    assert first is not None
    assert round(first.since_s * 10) == owed[0]
    assert round(first.time_s * 10) == owed[0] + 3
