"""A small model, guards of it, and servers in this process or another."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.files import write_json
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.policy import STAGES, Policy
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.remote.server import GuardServer
from forewarn.plugins.remote.session import GuardPool, Lend

TOKEN = "a token of sixteen letters or more"  # noqa: S105
PROVIDES = ["speed", "collision"]
CALM = {"speed": 20.0, "collision": False}
RISKY = {"speed": 90.0, "collision": False}
POLICY = Policy(hold_s=0.0, deadline_s=dict.fromkeys(STAGES, 20.0), max_age_s=20.0)


@cache
def model() -> Model:
    """At high speed a collision follows soon, at low speed never."""
    abstraction = from_expressions(
        ["speed > 60 km/h", "collision"], load_vocabulary("driving")
    )
    tally = Tally()
    for _ in range(20):
        tally.add_sequence(["00"] * 50)
        tally.add_sequence(["10", "10", "10", "11"])
    return learn(
        tally,
        Support("observed"),
        Fraction(0),
        "absorb",
        abstraction=abstraction.as_dict(),
        period_s=0.1,
        laws=("always not collision",),
    )


def pool(policy: Policy = POLICY, **parts: Any) -> GuardPool:
    """A pool of guards by the model of these tests."""
    return GuardPool(Guarding([model()], policy, **parts))


def frame(sequence: int, signals: dict[str, Any] | None = None, **more: Any) -> bytes:
    content = {
        "sequence": sequence,
        "time_s": 0.1 * sequence,
        "signals": CALM if signals is None else signals,
    }
    return json.dumps(content | more).encode()


def hello(**changes: Any) -> bytes:
    content = {"forewarn": "guard/1", "token": TOKEN, "provides": PROVIDES}
    return json.dumps(content | changes).encode()


@contextmanager
def serving(lend: Lend | None = None, **where: Any) -> Iterator[GuardServer]:
    """A server in a thread of this process."""
    server = GuardServer(lend or pool().lend, TOKEN, **where)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`forewarn guard` in another process, and the address it listens on."""
    write_json(folder / "model.json", model_as_dict(model()))
    (folder / "token").write_text(TOKEN + "\n")
    (folder / "policy.yaml").write_text(
        "format: forewarn.policy/1\nhold_s: 0\ndeadline_s: 20\nmax_age_s: 20\n"
        "lease_s: 20\n"
    )
    process = subprocess.Popen(
        [
            sys.executable, "-m", "forewarn.cli", "guard", "--socket", "127.0.0.1:0",
            "--token-file", str(folder / "token"), "--json",
            "--model", str(folder / "model.json"),
            "--policy", str(folder / "policy.yaml"), *options,
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)["listening"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
