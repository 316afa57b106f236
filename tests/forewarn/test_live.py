"""--live: a line in the terminal, and a page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.frame import Frame, Source
from forewarn.cli import main
from forewarn.monitors.chains.model import load_model
from forewarn.monitors.guarding.decision import Decision, Outcome, Turn
from forewarn.monitors.guarding.listening import Run
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import load_watch
from forewarn.scenarios.live.line import BAR_WIDTH, LiveLine, bar
from tests.scenarios import learned


def test_a_bar_shows_a_risk_and_its_bounds() -> None:
    assert bar(0.0, 0.0, 0.0) == "·" * BAR_WIDTH
    assert bar(1.0, 1.0, 1.0).strip("█▓") == ""
    shown = bar(0.25, 0.5, 0.75)
    assert [shown.count(each) for each in "█▓▒·"] == [11, 1, 6, 6]
    assert shown.index("▓") == 6


def test_a_live_line_follows_the_episode(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [1.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    watch = load_watch(load_model(str(learned.model("tiny-road"))), horizon_s=3.0)
    line = LiveLine()
    line.began(Run("tiny-road, seed 7", Source("tiny"), watch, Policy()))
    frame = Frame(3.0, 3, {})
    decision = Decision("stop", 3, 3.0, "stop_at_red", None, "it cannot be judged")
    line.decided(watch, frame, decision)
    shown = capsys.readouterr().err
    assert shown == "\r\x1b[Ktiny-road, seed 7     3.0 s  stop  it cannot be judged"
    law = watch.laws[0]
    law.low, law.point, law.high = 0.25, 0.5, 0.75
    outcome = Outcome("stop", "stop", obeyed=True)
    line.carried_out(frame, Turn(decision, outcome, None))
    line.decided(watch, frame, decision)
    assert capsys.readouterr().err == "", "not ten times a frame"
    now[0] = 2.0
    line.decided(watch, frame, decision)
    shown = capsys.readouterr().err
    assert f"{bar(0.25, 0.5, 0.75)} 0.50 (0.25 to 0.75)  {law.name[:27]}" in shown
    assert shown.endswith("stop, obeyed")
    line.ended({"ended": "it arrived"})
    assert capsys.readouterr().err == "\r\x1b[K"


def test_a_run_tells_where_its_page_is(tmp_path: Path) -> None:
    arguments: list[Any] = [
        "run", "tiny-road", "--model", learned.model("tiny-road"), "--seed", 9000,
        "--live", "web", "--pace", "0", "--out", tmp_path,
    ]  # fmt: skip
    command = [sys.executable, "-m", "forewarn.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"Watch the run live: http://127\.0\.0\.1:\d+/#[\w-]{32}\n", done.stderr
    )


def test_without_a_guard_there_is_nothing_to_watch(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["run", "tiny-road", "--unguarded", "--live", "--out", str(tmp_path)]
    )
    assert done.exit_code == 2
    assert "--live shows a guard, and this run has none" in done.stderr


def test_a_paced_run_takes_the_time_that_it_is_told_to(tmp_path: Path) -> None:
    from forewarn.abstractions.frame import Frame
    from forewarn.scenarios.running.tracker import Pace

    slept: list[float] = []
    pace = Pace(2.0)
    with pytest.MonkeyPatch.context() as patch:
        clock = [5.0]
        patch.setattr("time.monotonic", lambda: clock[0])
        patch.setattr("time.sleep", slept.append)
        pace.began(Run("w", Source("w", "driving", (), 0.1)))
        for i in range(3):
            pace.frame(Frame(i * 1.0, i, {}), None, None)
        pace.began(Run("w", Source("w", "driving", (), 0.1, embedded=False)))
        pace.frame(Frame(99.0, 0, {}), None, None)
    assert slept == [0.5, 1.0], "half of the world's time, and live worlds wait never"
