"""Makes the README's animation: the first run of a report, as a browser plays it.

forewarn demo --out out/demo
python -m tests.film out/demo/report.html docs/report.webp
"""

from __future__ import annotations

import argparse
import base64
import io
from collections.abc import Iterator
from pathlib import Path

from tests.browser import Page, chromium

WIDTH, SCALE = 1000, 0.72
"""The width of the page in pixels, and the scale of the pictures."""
STEP_S, REST_S = 0.25, 2.0
"""The run time between two pictures, and the duration of the last one, in seconds."""
MOST_BYTES = 400_000


def film(report: Path, out: Path, most: int = 200) -> int:
    """Writes an animated WebP of a report's first run; returns its size in bytes."""
    from PIL import Image

    with chromium() as browser:
        page = browser.open(report, WIDTH, 1400, calm=True)
        page.wait_for("document.documentElement.dataset.ready === 'yes'")
        taken = [Image.open(io.BytesIO(data)) for data in _pictures(page, most)]
    shown_ms = [round(1000 * STEP_S)] * len(taken)
    shown_ms[-1] = round(1000 * REST_S)
    taken[0].save(
        out, save_all=True, append_images=taken[1:], duration=shown_ms, loop=0,
        quality=40, method=5,
    )  # fmt: skip
    return out.stat().st_size


def _pictures(page: Page, most: int) -> Iterator[bytes]:
    first = "JSON.parse(document.getElementById('data').textContent).runs[0]"
    time_s, until_s = page.evaluate(f"[{first}.start, {first}.until]")
    box = page.evaluate(
        "(box => [box.x, box.y, box.width, box.height])"
        "(document.querySelector('.stage').getBoundingClientRect())"
    )
    clip = dict(zip(("x", "y", "width", "height"), box, strict=True), scale=SCALE)
    for _ in range(most):
        page.evaluate(
            f"(it => {{ it.value = {time_s}; it.dispatchEvent(new Event('input')); }})"
            "(document.querySelector('.stage input[type=range]'))"
        )
        shot = page.command("Page.captureScreenshot", format="png", clip=clip)
        yield base64.b64decode(shot["data"])
        if time_s >= until_s:
            return
        time_s = min(time_s + STEP_S, until_s)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("report", type=Path)
    options.add_argument("out", type=Path)
    given = options.parse_args()
    size = film(given.report, given.out)
    print(f"{given.out}: {size:,} bytes")
    raise SystemExit(size > MOST_BYTES)
