"""The client's API against the stand-in, and the table of it in the docs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standins.carla.clients import Serve
from tests.standins.carla.rows import LOADS, ROWS, table

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "carla.md"

# CARLA's library may close a stream twice when another world is loaded; that ends it.
_ITS_OWN = "close: Bad file descriptor"
_ATTEMPTS = 3


@pytest.fixture(scope="module")
def outcomes(serve: Serve, tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    port = serve("--map", "crossing", "--kinematic").port
    found: dict[int, str] = {}
    for first in (0, LOADS):
        for _ in range(_ATTEMPTS):
            done = subprocess.run(
                [sys.executable, "-m", "tests.standins.carla.api", str(port),
                 str(first), str(tmp_path_factory.mktemp("scratch"))],
                capture_output=True, text=True, timeout=120, check=False, cwd=ROOT,
            )  # fmt: skip
            if _ITS_OWN not in done.stderr:
                break
        lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
        found |= dict(json.loads(line) for line in lines)
        assert done.returncode == 0, (
            f"the client ended after {ROWS[max(found)][0]}: {done.stderr[-500:]}"
        )
    return found


def test_every_call_of_the_table_works(outcomes: dict[int, str]) -> None:
    wrong = [f"{ROWS[n][0]}: {said}" for n, said in outcomes.items() if said != "works"]
    assert len(outcomes) == len(ROWS) and not wrong, "\n".join(wrong)


def test_the_page_contains_the_table_of_calls() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert "\n".join(table()) in text, (
        "docs/carla.md is behind: python -m tests.standins.carla.api prints it"
    )
