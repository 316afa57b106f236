"""Screenshots beside those that are kept, with room for fonts and smoothing.

A picture is kept small, a quarter of the page's size on a side: letters are grey and
shapes are shapes. `make pictures` takes them anew: look at them before you keep them.
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
"""How much a point's colour must differ, of 255, to count as another."""
MOST_FAR, MOST_MEAN = 0.06, 8.0
"""How many points may, as a share, and how much all may on average."""

REDRAWN = "FOREWARN_PICTURES"


def assert_like(page: Page, kept: Path, width: int, height: int) -> None:
    """Fails where the top of a page does not look like a picture that is kept."""
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
    assert kept.is_file(), f"no {kept.name} is kept: make pictures"
    apart = difference(data, kept.read_bytes())
    assert apart is not None, f"{kept.name} has another size: make pictures"
    far, mean = float((apart > FAR).mean()), float(apart.mean())
    if far > MOST_FAR or mean > MOST_MEAN:
        seen = kept.with_suffix(".seen.png")
        seen.write_bytes(data)
        raise AssertionError(
            f"{kept.name}: {far:.1%} of its points differ, by {mean:.1f} on average;"
            f" see {seen}; if that is what it should be: make pictures"
        )


def difference(one: bytes, other: bytes) -> np.ndarray | None:
    """How far two pictures' points are apart; none if their sizes differ."""
    from PIL import Image

    images = [
        np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int16)
        for data in (one, other)
    ]
    if images[0].shape != images[1].shape:
        return None
    apart: np.ndarray = np.abs(images[0] - images[1]).max(axis=2)
    return apart
