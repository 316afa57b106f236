"""The client's whole API against the stand-in, and the table of it in the docs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standins.carla.clients import Serve
from tests.standins.carla.rows import (
    ERROR,
    LOADS,
    NO_EFFECT,
    ROWS,
    WORKS,
    table,
)

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs" / "carla.md"

# What the client works out or keeps by itself, and what only comes out of sensors.
_LOCAL = {"get_count", "raw_data"}
_CLASSES = (
    "Client", "World", "Map", "Actor", "Vehicle", "Walker", "WalkerAIController",
    "Sensor", "ServerSideSensor", "TrafficLight", "TrafficSign", "TrafficManager",
    "BlueprintLibrary", "ActorBlueprint", "ActorAttribute", "ActorList",
    "ActorSnapshot", "WorldSnapshot", "DebugHelper", "LightManager", "Landmark",
    "Waypoint", "Junction",
)  # fmt: skip


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


def test_every_call_comes_out_as_the_table_says(outcomes: dict[int, str]) -> None:
    wrong = []
    for number, (name, _, expected) in enumerate(ROWS):
        outcome = outcomes[number]
        works = expected in (WORKS, NO_EFFECT)
        fits = outcome == WORKS if works else outcome.startswith(ERROR)
        if not fits:
            wrong.append(f"{name}: {outcome}")
    assert not wrong, "\n".join(wrong)


def test_the_table_has_every_public_method_of_the_client() -> None:
    carla = pytest.importorskip("carla", reason="no carla for this Python")
    missing = []
    named = {name for name, _, _ in ROWS}
    for kind in _CLASSES:
        for method, value in vars(getattr(carla, kind)).items():
            if not method.startswith("_") and callable(value):
                if f"{kind}.{method}" not in named and method not in _LOCAL:
                    missing.append(f"{kind}.{method}")
    for name in vars(carla.command):
        if name[0].isupper() and f"command.{name}" not in named:
            missing.append(f"command.{name}")
    assert not missing


def test_the_docs_have_the_table() -> None:
    text = DOCS.read_text(encoding="utf-8")
    assert "\n".join(table()) in text, (
        "docs/carla.md is behind: python -m tests.standins.carla.api prints it"
    )
