"""The watchdog: each way of failing has its name, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.thor_bridge.support import (
    OutOfStep,
    SimulatorDied,
    SimulatorError,
    SimulatorHung,
)
from forewarn.thor_bridge.wire import connect

pytestmark = [pytest.mark.needs("ai2thor", "msgpack")]

PLAYERS = Path(__file__).with_name("players.py")
SOON_S = 15.0
"""Long for a loaded machine, short beside the 100 s and more of ai2thor itself."""


def player(way: str) -> str:
    return shlex.join([sys.executable, str(PLAYERS), way])


def children() -> set[int]:
    """The processes that descend from this one, by their number."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found, front = set(), {os.getpid()}
    while front:
        front = {child for child, parent in parents.items() if parent in front}
        found |= front
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process, no pipe, no port, no thread and no descriptor is left behind."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    gc.freeze()  # so that below only what the test made is searched
    before = children()
    threads = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    assert children() == before
    assert list(tmp_path.rglob("*.pipe")) == []
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def start(way: str, **limits: Any) -> Any:
    given = {"start_timeout_s": SOON_S, "action_timeout_s": SOON_S, **limits}
    return connect("Kitchen1", player=player(way), **given)


def timed(
    error: type[SimulatorError], way: str, patience_s: float = SOON_S, **limits: Any
) -> str:
    """What is raised, which must come soon, at the start or at a RotateRight."""
    began = time.monotonic()
    with pytest.raises(error) as caught:
        controller = start(way, **limits)
        began = time.monotonic()
        controller.server.timeout = patience_s
        controller.step("RotateRight")
    assert time.monotonic() - began < SOON_S
    return str(caught.value)


def test_a_player_that_never_answers_is_ended() -> None:
    assert "did not answer for 1 s" in timed(SimulatorHung, "mute", start_timeout_s=1.0)


def test_a_player_that_opens_its_pipe_and_never_answers_is_ended() -> None:
    assert "did not answer for 1 s" in timed(SimulatorHung, "late", start_timeout_s=1.0)


def test_a_player_that_exits_at_once_is_reported() -> None:
    assert "ended with status 3" in timed(SimulatorDied, "dies-first")


def test_a_missing_player_is_reported() -> None:
    with pytest.raises(SimulatorDied, match="the simulator could not be started:"):
        connect("Kitchen1", player="/no/such/player")


def test_a_player_that_exits_during_an_action_is_reported() -> None:
    assert "ended with status 4" in timed(SimulatorDied, "dies")


def test_a_player_that_exits_during_an_answer_is_reported() -> None:
    assert "ended with status 5" in timed(SimulatorDied, "half")


def test_a_hanging_player_is_ended() -> None:
    assert "did not answer for 0.5 s" in timed(SimulatorHung, "hangs", patience_s=0.5)


def test_the_child_process_of_a_player_is_ended_too() -> None:
    timed(SimulatorHung, "child", patience_s=0.5)


def test_an_answer_to_another_action_is_rejected() -> None:
    assert "instead of" in timed(OutOfStep, "liar")


def test_a_player_killed_between_actions_is_reported() -> None:
    controller = connect("Kitchen1")
    os.kill(controller.unity_pid, signal.SIGKILL)
    with pytest.raises(SimulatorDied):
        controller.step("Pass")
    with pytest.raises(SimulatorError):
        controller.step("Pass")


def test_a_suspended_player_counts_as_hanging() -> None:
    controller = connect("Kitchen1")
    controller.server.timeout = 0.5
    os.kill(controller.unity_pid, signal.SIGSTOP)
    with pytest.raises(SimulatorHung):
        controller.step("Pass")


def test_the_setting_of_the_gpu_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    connect("Kitchen1").stop()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
