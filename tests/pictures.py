"""Compares screenshots with stored ones, and tolerates different fonts and smoothing.

Stored pictures have a quarter of the page's width and height, so that only shapes and
colours matter, not letters. `make pictures` replaces them; look at them before you
commit them.
"""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path

import numpy as np

from tests.browser import Page

SCALE = 0.25
FAR = 48
"""The minimum difference of a pixel's colour (0 to 255) to count as different."""
MOST_FAR, MOST_MEAN = 0.06, 8.0
"""The maximum fraction of different pixels, and the maximum mean difference."""

REDRAWN = "FOREWARN_PICTURES"


def assert_like(page: Page, kept: Path, width: int, height: int) -> None:
    """Fails if the top of a page does not look like a stored picture."""
    found = page.command(
        "Page.captureScreenshot",
        format="png",
        clip={"x": 0, "y": 0, "width": width, "height": height, "scale": SCALE},
    )
    data = base64.b64decode(found["data"])
    if os.environ.get(REDRAWN):
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(data)
        return
    assert kept.is_file(), f"{kept.name} does not exist: run make pictures"
    apart = difference(data, kept.read_bytes())
    assert apart is not None, f"{kept.name} has another size: run make pictures"
    far, mean = float((apart > FAR).mean()), float(apart.mean())
    if far > MOST_FAR or mean > MOST_MEAN:
        seen = kept.with_suffix(".seen.png")
        seen.write_bytes(data)
        raise AssertionError(
            f"{kept.name}: {far:.1%} of the pixels differ; the mean difference is"
            f" {mean:.1f}; see {seen}; if the new picture is right, run make pictures"
        )


def difference(one: bytes, other: bytes) -> np.ndarray | None:
    """Returns the difference at each pixel; None if the sizes differ."""
    from PIL import Image

    images = [
        np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int16)
        for data in (one, other)
    ]
    if images[0].shape != images[1].shape:
        return None
    apart: np.ndarray = np.abs(images[0] - images[1]).max(axis=2)
    return apart
