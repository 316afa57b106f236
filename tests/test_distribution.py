"""Tests that the wheel contains each tracked module once, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = (
    "abstractions",
    "apollo_bridge",
    "monitors",
    "plugins",
    "scenarios",
    "standins",
    "thor_bridge",
)


def _tracked(*paths: str) -> set[str]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so the tracked files are unknown")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *paths],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return set(listed.stdout.split("\0")) - {""}


@pytest.mark.slow
@pytest.mark.needs("build")
def test_the_wheel_built_through_the_sdist_holds_what_is_tracked(
    tmp_path: Path,
) -> None:
    face = _tracked("forewarn/*.py", "forewarn/*.yaml", "forewarn/py.typed")
    rooms = {f"forewarn/{path}" for path in _tracked(*ROOMS)}
    # Build from tracked files only, so that untracked files cannot hide a missing one.
    checkout = tmp_path / "checkout"
    subprocess.run(
        ["git", "checkout-index", "--all", f"--prefix={checkout}/"],
        cwd=ROOT,
        check=True,
    )
    dist = Path(os.environ.get("FOREWARN_WHEEL", tmp_path / "dist"))
    built = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(dist), str(checkout)],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    shipped = [name for name in names if ".dist-info/" not in name]
    assert len(shipped) == len(set(shipped))
    assert set(shipped) == face | rooms
    assert any(name.endswith("/licenses/LICENSE") for name in names)
