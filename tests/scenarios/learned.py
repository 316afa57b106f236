"""Models of the tiny scenarios, learned as a user learns them, once per test run."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from click.testing import CliRunner

from forewarn.cli import main

SEEDS = 120
"""The models know seeds 0 to 119."""

FRESH = 7000
"""From this seed on there are runs that they do not know."""


def forewarn(*arguments: object) -> str:
    """What a command that succeeds prints."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder that `make` fills, for the first worker that asks."""
    folder = Path(os.environ["FOREWARN_TESTS_SHARED"]) / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (done := folder / ".done").exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            done.touch()
    return folder


@cache
def traces(scenario: str, first: int = 0) -> Path:
    """Return the folder of runs: those of training, unless another seed is given."""
    count = ("--episodes", str(SEEDS), "--seed", str(first))
    return made_once(
        f"{scenario}-{first}",
        lambda folder: forewarn("collect", scenario, *count, "--out", folder),
    )


@cache
def model(scenario: str) -> Path:
    """Return the model learned from them."""
    learn = ("learn", traces(scenario), "--scenario", scenario, "--out")
    folder = made_once(
        f"{scenario}-model", lambda folder: forewarn(*learn, folder / "model.json")
    )
    return folder / "model.json"
