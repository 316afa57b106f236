"""No file, however small, keeps a command busy or takes the machine's memory."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.forewarn.bombs import write_bombs

MOST_S = 5.0
MOST_KB = 500_000


def commands(path: Path) -> list[str]:
    if ".yaml" in path.name:
        return ["run", str(path)]
    if ".jsonl" in path.name or ".csv" in path.name:
        return ["monitor", str(path), "--law", "always speed < 5"]
    return ["import", str(path), "--out", os.devnull]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "wait4"), reason="needs wait4, as on Linux")
def test_every_command_refuses_every_bomb_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as two:
        list(two.map(refused, write_bombs(tmp_path)))


def refused(path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "forewarn.cli", *commands(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 2, (path.name, said)
    assert said.count("\n") == 1, (path.name, said)
    assert used.ru_utime + used.ru_stime < MOST_S, path.name
    assert used.ru_maxrss < MOST_KB, path.name
