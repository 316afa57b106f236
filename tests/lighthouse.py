"""Lighthouse's accessibility scores of a report and the live page; `make lighthouse`.

Lighthouse requires npm and Chromium, so CI runs only axe-core, on which it is based.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from forewarn.scenarios.report.page import write_report
from tests.browser import CHROMIUM
from tests.scenarios import learned
from tests.scenarios.learned import forewarn
from tests.scenarios.live.serving import run, serving

LEAST = 95


def main() -> int:
    npx = shutil.which("npx")
    if npx is None or CHROMIUM is None:
        print("lighthouse requires npm and chromium", file=sys.stderr)
        return 3
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        model = learned.model("tiny-road")
        forewarn(
            "run", "tiny-road", "--model", model, "--intervene", "stop",
            "--episodes", "6", "--seed", "9000", "--out", folder / "runs",
        )  # fmt: skip
        write_report([folder / "runs"], folder / "report.html")
        serve = partial(SimpleHTTPRequestHandler, directory=scratch)
        server = ThreadingHTTPServer(("127.0.0.1", 0), serve)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/report.html"
        figures["report"] = figure(npx, url)
        server.shutdown()
        with serving() as live:
            run(folder, live.feed, 9001)
            figures["live"] = figure(npx, live.url)
    for name, found in figures.items():
        print(f"{name}: {found} of 100")
    return int(min(figures.values()) < LEAST)


def figure(npx: str, url: str) -> int:
    """Returns Lighthouse's accessibility score of a page, from 0 to 100."""
    done = subprocess.run(
        [npx, "--yes", "lighthouse", url, "--only-categories=accessibility", "--quiet",
         "--output=json", "--chrome-flags=--headless=new --no-sandbox --disable-gpu"],
        env={**os.environ, "CHROME_PATH": str(CHROMIUM)},
        stdout=subprocess.PIPE, check=True, text=True, timeout=300,
    )  # fmt: skip
    score = json.loads(done.stdout)["categories"]["accessibility"]["score"]
    return round(100 * float(score))


if __name__ == "__main__":
    sys.exit(main())
