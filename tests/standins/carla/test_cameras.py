"""Where a camera looks for a box, against looking for it everywhere."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from forewarn.standins.carla import sights
from forewarn.standins.carla.actors import Pose
from forewarn.standins.carla.sights import Lens, Picture
from forewarn.standins.carla.surroundings import Body


def drawn(lens: Lens, at: Pose, body: Body) -> Picture:
    level = sights._level(lens, at[3], at[5], at[2])
    nothing = np.zeros((lens.height, lens.width), np.uint16)
    picture = Picture(lens, level, level.far.copy(), nothing, [])
    sights._draw(picture, at, body)
    return picture


def test_no_pixel_of_a_box_lies_outside_its_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    luck, shown = Random(1), 0
    cases = []
    for _ in range(400):
        x, y, turn = luck.uniform(-5, 5), luck.uniform(-5, 5), luck.uniform(-180, 180)
        tilt, roll = luck.uniform(-20, 20), luck.uniform(-10, 10)
        at = (x, y, luck.uniform(0.5, 2.5), tilt, turn, roll)
        middle = luck.uniform(-8, 8), luck.uniform(-8, 8), luck.uniform(0.2, 2)
        half = luck.uniform(0.2, 5), luck.uniform(0.2, 2), luck.uniform(0.2, 2)
        body = Body(1, 4, (1, 2, 3), middle, luck.uniform(-180, 180), half)
        cases.append((Lens(64, 48, luck.choice([60.0, 90.0, 120.0])), at, body))
    found = [drawn(*case) for case in cases]
    everywhere = slice(None), slice(None)
    monkeypatch.setattr(sights, "_window", lambda lens, at, body: everywhere)
    for case, picture in zip(cases, found, strict=True):
        wanted = drawn(*case)
        assert np.array_equal(picture.code, wanted.code)
        assert np.array_equal(picture.far, wanted.far)
        shown += bool(wanted.code.any())
    assert shown > 100
