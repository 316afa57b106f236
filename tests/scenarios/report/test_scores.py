"""A score in a report: every curve of it drawn, what is no curve in words."""

from __future__ import annotations

from xml.etree.ElementTree import fromstring

from forewarn.abstractions.abstraction import Abstraction, from_expressions
from forewarn.scenarios.report.chains import draw_scores

SCORED = Abstraction.from_dict(
    {
        "format": "forewarn.abstraction/1",
        "name": "scored",
        "vocabulary": "driving",
        "scores": {
            "danger": "-0.5 + curve(time_to_collision, 1.2 below 2 s, -0.3 else, -0.8"
            " none) + curve(headway, 1 below 0.5 s, 0 else)"
            " + curve(braking, 0.3 true, 0 else)"
        },
        "predicates": ["danger >= 1"],
    },
    "scored",
)


def test_each_curve_is_drawn_to_one_scale() -> None:
    drawn = [str(part) for part in draw_scores(SCORED)]
    assert drawn[0] == "<h4>danger</h4>"
    first, second = (
        fromstring(part)  # noqa: S314
        for part in drawn
        if part.startswith("<svg")
    )
    assert first.get("aria-label") == "time_to_collision"
    bars = first.findall("rect")
    assert [bar[0].text for bar in bars] == ["< 2 s: +1.2", "else: -0.3", "none: -0.8"]
    heights = [float(bar.get("height") or 0) for bar in bars]
    assert abs(heights[1] / heights[0] - 0.25) < 1e-3
    assert abs(heights[2] / heights[0] - 2 / 3) < 1e-3
    assert len(second.findall("rect")) == 2
    assert "curve(braking, 0.3 true, 0 else)" in "".join(drawn)


def test_without_scores_nothing_is_drawn() -> None:
    assert not list(draw_scores(from_expressions(["x > 1"])))
