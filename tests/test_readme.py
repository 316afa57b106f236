"""Tests that the commands in the README work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main
from tests import film

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(
    r"^```(\w*)\n(.*?)^```",
    (ROOT / "README.md").read_text(encoding="utf-8"),
    re.M | re.S,
)


def _commands() -> list[list[str]]:
    text = "".join(block for language, block in BLOCKS if not language)
    lines = text.replace("\\\n", " ").splitlines()
    words = (shlex.split(line) for line in lines)
    return [line for line in words if line[:1] == ["forewarn"]]


def _expanded(word: str, out: Path) -> list[str]:
    if word.startswith("out/"):
        return [str(out / word)]
    return [str(path) for path in sorted(ROOT.glob(word))] if "*" in word else [word]


def _said(lines: list[list[str]], out: Path) -> str:
    """Returns the joined outputs of commands."""
    said = ""
    for _, *words in lines:
        arguments = [part for word in words for part in _expanded(word, out)]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code in (0, 1), done.output
        said += done.output
    return said


def test_it_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 110


@pytest.mark.needs("libsumo")
def test_the_first_warning_is_the_one_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    lines = [line for line in _commands() if {"s3", "out/first"} & set(line)]
    assert [line[1] for line in lines] == ["run", "report"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    said = _said(lines, tmp_path)
    shown = re.findall(r"`([\d.]+ s  [^`]+)`", text)
    assert len(shown) == 2 and all(each in said for each in shown)
    assert (tmp_path / "out" / "first.html").is_file()


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    lines = [line for line in _commands() if not {"s3", "out/first"} & set(line)]
    assert {line[1] for line in lines} >= {"doctor", "monitor", "learn", "check"}
    _said(lines, tmp_path)


@pytest.mark.needs("PIL")
def test_its_picture_moves_and_is_small() -> None:
    from PIL import Image

    path = ROOT / "docs" / "report.webp"
    assert path.stat().st_size < film.MOST_BYTES
    with Image.open(path) as picture:
        assert getattr(picture, "n_frames", 1) > 20


def test_its_python_runs() -> None:
    (code,) = (block for language, block in BLOCKS if language == "python")
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"print\(law.names\)  # (.*)", code)
    assert done.stdout.splitlines()[0] == str(tuple(promised[0].split(", ")))
