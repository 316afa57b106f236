"""Models of the tiny scenarios, learned the way that a user does it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from click.testing import CliRunner

from forewarn.cli import main

SEEDS = 120
"""The models know seeds 0 to 119."""


def forewarn(*arguments: str | Path) -> str:
    """What a command that succeeds prints."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@cache
def traces(scenario: str) -> Path:
    """The folder of the training runs of a scenario."""
    folder = Path(mkdtemp(prefix="forewarn-traces-"))
    forewarn("collect", scenario, "--episodes", str(SEEDS), "--out", folder)
    return folder


@cache
def model(scenario: str) -> Path:
    """The model learned from them."""
    path = Path(mkdtemp(prefix="forewarn-model-")) / "model.json"
    forewarn("learn", traces(scenario), "--scenario", scenario, "--out", path)
    return path
