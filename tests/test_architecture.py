"""The rooms: arrows go down, none in a circle, and each can be taken in at a look."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import draw

ROOT = Path(__file__).parents[1]
MOST_FILES = 12

if not (ROOT / "docs").is_dir():
    pytest.skip("the pages are not here: not a checkout", allow_module_level=True)


def folders() -> Iterator[Path]:
    for room in (room for row in draw.ROWS for room in row):
        for folder in [ROOT / room, *(ROOT / room).rglob("*")]:
            if folder.is_dir() and (folder / "__init__.py").exists():
                yield folder


def test_every_arrow_goes_down_and_none_runs_in_a_circle() -> None:
    assert draw.picture().startswith("<svg")


def test_a_circle_is_told_with_its_way() -> None:
    with pytest.raises(ValueError, match="a circle: a -> b -> c -> a"):
        draw.levels({"a": {"b"}, "b": {"c"}, "c": {"a"}})


def test_an_arrow_that_others_tell_is_left_out() -> None:
    arrows = {"a": {"b", "c"}, "b": {"c"}, "c": set[str]()}
    assert draw.told(arrows) == {"a": {"b"}, "b": {"c"}, "c": set()}
    assert draw.levels(arrows) == {"a": 2, "b": 1, "c": 0}


def test_no_room_has_more_files_than_one_sees_at_a_look() -> None:
    crowded = {
        str(folder.relative_to(ROOT)): len(files)
        for folder in folders()
        if len(files := [p for p in folder.glob("*.py") if p.stem[:2] != "__"])
        > MOST_FILES
    }
    assert crowded == {}


def test_the_page_names_files_that_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:[a-z_]+/)+[a-z_]+(?:\.py|\.yaml)?)`", page)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []
    linked = re.findall(r"\]\(([\w-]+\.\w+)\)", page)
    assert [name for name in linked if not (ROOT / "docs" / name).exists()] == []


def test_the_picture_is_that_of_this_code() -> None:
    drawn = draw.PICTURE.read_text(encoding="utf-8")
    assert drawn == draw.picture(), "run python docs/draw.py"
