"""What the README tells a newcomer to type works."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main

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


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    commands = _commands()
    assert {line[1] for line in commands} >= {"doctor", "monitor", "learn", "check"}
    for _, *words in commands:
        arguments = [part for word in words for part in _expanded(word, tmp_path)]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code in (0, 1), done.output


def test_its_python_runs() -> None:
    (code,) = (block for language, block in BLOCKS if language == "python")
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    promised = re.findall(r"print\(law.names\)  # (.*)", code)
    assert done.stdout.splitlines()[0] == str(tuple(promised[0].split(", ")))
