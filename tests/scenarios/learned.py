"""Models of the tiny scenarios, learned the way that a user does it."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from forewarn.cli import main

SEEDS = 120
"""The models know seeds 0 to 119."""

FRESH = 7000
"""From this seed on there are runs that they do not know."""

_folders = ExitStack()
atexit.register(_folders.close)


def _folder() -> Path:
    """One that stays until the tests are over."""
    return Path(_folders.enter_context(TemporaryDirectory(prefix="forewarn-")))


def forewarn(*arguments: object) -> str:
    """What a command that succeeds prints."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@cache
def traces(scenario: str, first: int = 0) -> Path:
    """The folder of runs of a scenario: those of training, unless from another seed."""
    folder = _folder()
    count = ("--episodes", str(SEEDS), "--seed", str(first))
    forewarn("collect", scenario, *count, "--out", folder)
    return folder


@cache
def model(scenario: str) -> Path:
    """The model learned from them."""
    path = _folder() / "model.json"
    forewarn("learn", traces(scenario), "--scenario", scenario, "--out", path)
    return path
