"""A model of something else is refused, with all that differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidModel
from forewarn.monitors.chains.model import Model, refuse_other
from tests.plugins.remote.serving import model

HERE: dict[str, Any] = {"scenario": "s1", "vocabulary": "driving", "period_s": 0.1}


def of(*scenarios: str, **changes: Any) -> Model:
    files = [{"name": f"{name}.jsonl", "scenario": name} for name in scenarios]
    return replace(model(), training={"files": files}, **changes)


@pytest.mark.parametrize(
    ("changes", "differs"),
    [
        ({"scenario": "s2"}, "it was learned on s1, but the scenario is s2"),
        (
            {"vocabulary": "household"},
            "its vocabulary is driving, but the source's is hou",
        ),
        (
            {"period_s": 1.0},
            "its states are 0.1 s apart, but the source's frames are 1 s",
        ),
        (
            {"period_s": 0.05},
            "its states are 0.1 s apart, but the source's frames are 0.05 s",
        ),
    ],
)
def test_difference_is_reported(changes: dict[str, Any], differs: str) -> None:
    refuse_other(of("s1"), "m.json", **HERE)
    with pytest.raises(InvalidModel, match=differs) as refused:
        refuse_other(of("s1"), "m.json", **HERE | changes)
    assert "--accept-model" in str(refused.value)


def test_undeclared_value_matches_anything() -> None:
    refuse_other(model(), "m.json", **HERE | {"scenario": "s2"})
    refuse_other(of("s1"), "m.json")
    refuse_other(of("s1", "s2"), "m.json", **HERE)


def test_latched_predicates_may_be_read_more_often() -> None:
    abstraction = {**(model().abstraction or {}), "period_s": 0.1}
    refuse_other(of("s1", abstraction=abstraction), "m", **HERE | {"period_s": 0.05})
    with pytest.raises(
        InvalidModel, match=("s apart, but the source's frames are 0.2 s")
    ):
        refuse_other(of("s1", abstraction=abstraction), "m", **HERE | {"period_s": 0.2})
