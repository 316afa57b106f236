"""Every branch of the gate is taken by its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.runner import ROOT

GATE = "*/monitors/guarding/gate.py"


def covered(folder: Path, *choice: str) -> tuple[int, str]:
    """Whether the gate's tests, or a choice of them, take every branch."""
    environment = os.environ | {"COVERAGE_FILE": str(folder / "data"), "CI": "1"}

    def coverage(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "coverage", *arguments],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    ran = coverage(
        "run", "--branch", f"--include={GATE}", "-m", "pytest", "-q", "-p",
        "no:cacheprovider", "tests/monitors/guarding/test_gate.py", *choice,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    report = coverage("report", "-m", f"--include={GATE}", "--fail-under=100")
    return report.returncode, report.stdout


@pytest.mark.slow
@pytest.mark.needs("coverage")
def test_every_branch_of_the_gate_is_taken(tmp_path: Path) -> None:
    status, report = covered(tmp_path)
    assert status == 0, report
    # And with fewer tests the same check fails.
    status, report = covered(tmp_path, "-k", "good_frame")
    assert status == 2, report
