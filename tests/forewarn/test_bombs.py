"""No file, however small, keeps a command busy or takes the machine's memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.forewarn.bombs import REQUEST, most_s, write_bombs

READ = {"nots.pm"}
"""Storm reads it at once."""

MOST_KB = 500_000


def commands(path: Path) -> list[str]:
    if ".py" in path.name:
        request = path.with_name("request.md")
        request.write_text(REQUEST)
        words = ["guard-program", "compile", request, "--spec", request]
        return [str(w) for w in [*words, "--functions", path, "--out", os.devnull]]
    if ".yaml" in path.name:
        return ["run", str(path)]
    if ".jsonl" in path.name or ".csv" in path.name:
        return ["monitor", str(path), "--law", "always speed < 5"]
    return ["import", str(path), "--out", os.devnull]


MEASURED = """
import json, resource, subprocess, sys
command = [sys.executable, "-m", "forewarn.cli", *sys.argv[1:]]
done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
took_s = used.ru_utime + used.ru_stime
print(json.dumps([done.returncode, done.stderr.decode(), took_s, used.ru_maxrss]))
"""
"""Runs a command from a process that is small itself: a child's greatest size begins
with that of whoever starts it."""


@pytest.mark.slow
@pytest.mark.needs("resource")
def test_every_command_refuses_every_bomb_at_once(tmp_path: Path) -> None:
    most = most_s()
    with ThreadPoolExecutor(2) as two:
        list(two.map(lambda path: refused(path, most), write_bombs(tmp_path)))


@pytest.mark.soak
@pytest.mark.needs("resource")
def test_any_command_refuses_any_bomb_at_once(tmp_path: Path) -> None:
    """One in 31 of all pairs; `python -m tests.forewarn.bombing` tries them all."""
    trying = [sys.executable, "-m", "tests.forewarn.bombing", str(tmp_path), "31"]
    done = subprocess.run(trying, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def refused(path: Path, most: float) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *commands(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    status, said, took_s, most_kb = json.loads(done.stdout)
    assert status == (0 if path.name in READ else 2), (path.name, said)
    assert said.count("\n") == status // 2, (path.name, said)
    assert took_s < most, path.name
    assert most_kb < MOST_KB, path.name
