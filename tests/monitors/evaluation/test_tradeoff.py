"""Trade-off curves and the paper's table, on runs made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.monitors.evaluation.warned import (
    POINTS,
    Broken,
    Scored,
    best_allowed,
    trade_off,
    warned_at,
)
from forewarn.scenarios.measuring.paper_table import cell, hidden, paper_table


def run(scores: list[float], broken: tuple[float, float] | None = None) -> Scored:
    """A frame a second; `broken` is when, and since when."""
    times = [float(i) for i in range(len(scores))]
    return Scored(times, scores, Broken("law", *broken) if broken else None)


RUNS = [
    run([0.1, 0.4, 0.9, 0.9, 1.0, 1.0], (5.0, 4.0)),
    run([0.1, 0.1, 0.1, 0.1, 0.6, 1.0], (5.0, 4.0)),  # only at the trigger
    run([0.2, 0.2, 0.3]),
    run([0.2, 0.7, 0.3]),
]


def test_points_of_a_curve_by_hand() -> None:
    points = trade_off(RUNS, 3.0)
    found = {p["threshold"]: p for p in points}
    # What counts is the best score of a run, of a violating one before its trigger.
    assert list(found)[:4] == [0.1, 0.3, 0.7, 0.9]
    assert len(found) == 5 and list(found)[4] == pytest.approx(0.9)
    rates = [(p["detection_rate"], p["false_alarm_rate"]) for p in points]
    assert rates == [(1.0, 1.0), (0.5, 1.0), (0.5, 0.5), (0.5, 0.0), (0.0, 0.0)]
    assert found[0.7]["awt_trigger_s"] == 2.0
    assert found[0.3]["awt_trigger_s"] == 3.0
    best = best_allowed(points)
    assert best is not None and best["threshold"] == 0.9
    lax = best_allowed(points, 1.0)
    assert lax is not None and lax["detection_rate"] == 1.0


def test_unreadable_frames_are_alarms_at_any_threshold() -> None:
    broken = run([0.1, math.nan, 0.1])
    assert all(p["false_alarm_rate"] == 1.0 for p in trade_off([broken], 3.0))
    forced = Scored([0.0, 1.0], [0.1, 0.1], None, frozenset({1}))
    assert all(p["false_alarm_rate"] == 1.0 for p in trade_off([forced], 3.0))
    assert best_allowed(trade_off([broken], 3.0)) is None
    assert trade_off([run([math.nan])], 3.0) == [] == trade_off([], 3.0)


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 9).map(float), min_size=2, max_size=6),
            st.booleans(),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_a_higher_threshold_never_warns_more(
    drawn: list[tuple[list[float], bool]],
) -> None:
    runs = [
        run(scores, (len(scores) - 1.0, len(scores) - 1.0) if broken else None)
        for scores, broken in drawn
    ]
    points = trade_off(runs, 3.0)
    assert 2 <= len(points) <= POINTS + 1
    for rate in ("detection_rate", "false_alarm_rate"):
        rates = [p[rate] for p in points if p[rate] is not None]
        assert rates == sorted(rates, reverse=True)
    assert not points[-1]["detection_rate"] and not points[-1]["false_alarm_rate"]
    for point in points:
        warned = warned_at(runs, point["threshold"])
        assert warned.detection_rate == point["detection_rate"]


def test_in_time_is_three_seconds_before_the_deadline() -> None:
    facts = warned_at(RUNS, 0.9).as_dict(3.0)
    assert facts["in_time"] == {
        "lead_s": 3.0, "detected": 1, "rate": 0.5,
        "interval": pytest.approx(facts["intervals"]["detection_rate"]),
    }  # fmt: skip
    late = warned_at([run([0.0, 0.0, 1.0, 1.0], (3.0, 3.0))], 0.5)
    assert late.as_dict(3.0)["in_time"] is None, "an invariant has no deadline"
    jam = [run([0.0] * 5 + [1.0] * 20, (20.0, 2.0))]
    # Three seconds after the trigger is not detected, but long before the deadline.
    assert warned_at(jam, 0.5).as_dict(3.0)["detected"] == 0
    assert warned_at(jam, 0.5).as_dict(3.0)["in_time"]["rate"] == 1.0


def test_the_papers_table_counts_what_came_after_the_trigger() -> None:
    told = cell("paper", "law", "P_safe < 0.5", warned_at(RUNS, 0.5))
    assert (told["violating"], told["warned"]) == (2, 2)
    assert (told["mean_s"], told["max_s"]) == (2.0, 3.0)
    assert told["at_or_after_trigger"] == 1 and told["at_first_frame"] == 0
    assert told["false_alarm_rate"] == 0.5
    (words,) = hidden([cell("paper", "law", "P_safe < 0.5", warned_at(RUNS, 0.5))])
    assert "50% of the clean runs had an alarm" in words
    assert "1 of 2 warnings came at the trigger or after it" in words
    at_once = cell("paper", "law", "P_safe < 0.9", warned_at(RUNS, 0.1))
    assert at_once[
        "at_first_frame"
    ] == 2 and "2 of 2 warnings came at the first frame" in next(hidden([at_once]))
    never = cell("paper", "law", "P_safe < 0.1", warned_at(RUNS, 2.0))
    assert never["mean_s"] is None and list(hidden([never])) == []


def test_the_papers_thresholds_are_written_as_it_writes_them() -> None:
    rows = [
        ("guard", "law", 0.7, warned_at(RUNS, 0.7)),
        ("paper", "law", 0.3, warned_at(RUNS, 0.3)),
        ("redriver", "law", -0.4, warned_at(RUNS, -0.4)),
        ("paper", "law", 0.4, warned_at(RUNS, 0.4)),  # is in no column
    ]
    found = [(each["way"], each["threshold"]) for each in paper_table(rows)]
    assert found == [
        ("paper", "P_safe < 0.7"),
        ("redriver", "robustness < 0.4"),
        ("guard", "P_safe < 0.3"),
    ]
    assert np.isfinite([each["mean_s"] for each in paper_table(rows)]).all()
