"""The rooms: arrows go down, none in a circle, and each can be taken in at a look."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import draw

ROOT = Path(__file__).parents[1]

if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)


def test_every_arrow_goes_down_and_none_runs_in_a_circle() -> None:
    assert draw.picture().startswith("<svg")


def test_a_circle_is_told_with_its_way() -> None:
    with pytest.raises(ValueError, match="a circle: a -> b -> c -> a"):
        draw.levels({"a": {"b"}, "b": {"c"}, "c": {"a"}})


def test_an_arrow_that_others_tell_is_left_out() -> None:
    arrows = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    assert draw.told(arrows) == {"a": {"b"}, "b": {"c"}, "c": set()}
    assert draw.levels(arrows) == {"a": 2, "b": 1, "c": 0}
