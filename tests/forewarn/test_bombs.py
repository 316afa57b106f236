"""No file, however small, keeps a command busy or takes the machine's memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def bombing(folder: Path, every: int) -> None:
    """In a process that is small itself: a child's greatest size begins with it."""
    trying = [sys.executable, "-m", "tests.forewarn.bombing", str(folder), str(every)]
    done = subprocess.run(trying, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.needs("resource")
def test_every_command_refuses_every_bomb_at_once(tmp_path: Path) -> None:
    bombing(tmp_path, 0)


@pytest.mark.soak
@pytest.mark.needs("resource")
def test_any_command_refuses_any_bomb_at_once(tmp_path: Path) -> None:
    """One in 31 of all pairs; `python -m tests.forewarn.bombing` tries them all."""
    bombing(tmp_path, 31)
