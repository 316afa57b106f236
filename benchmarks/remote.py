"""A frame to a guard in another process and its decision back, over loopback."""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

from measuring import PEERS, Row
from online import LAWS, PREDICATES, drive

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.files import write_json
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.plugins.remote.client import GuardClient

TOKEN = "a token for the benchmark"  # noqa: S105
SIGNALS = 60
PERIOD_S = 0.1
PAUSE_S = 0.05


def rows(quick: bool) -> Iterator[Row]:
    frames = [padded(frame) for frame in drive(2_000 if quick else 20_000)]
    some = frames[: 40 if quick else 200]
    what = f"over the socket: {SIGNALS} signals, {len(PREDICATES)} predicates, "
    what += f"{len(LAWS)} laws"
    peer = "an echo of the frame, from another process"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_json(folder / "model.json", model_as_dict(learned(frames)))
        # In turn, so that both meet the same machine.
        with connected(folder) as client, echo() as line:
            times = asked(client, frames, 0, 0.0)
            least = statistics.median(echoed(line, frames, 0.0))
            median = statistics.median(times)
            yield Row(f"{what}, back to back", median, 200e-6, peer, least)
            times = asked(client, some, len(frames), PAUSE_S)
            least = statistics.median(echoed(line, some, PAUSE_S))
            median = statistics.median(times)
            yield Row(f"{what}, at 20 Hz", median, 500e-6, peer, least)
        with connected(folder, "--record", str(folder / "runs")) as client:
            times = asked(client, frames, 0, 0.0)
            yield Row(f"{what}, recorded", statistics.median(times))


@contextmanager
def echo() -> Iterator[socket.socket]:
    """A connection to a process that sends everything back."""
    command = [sys.executable, str(PEERS / "echo.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield line


def echoed(
    line: socket.socket, frames: list[dict[str, Any]], pause_s: float
) -> list[float]:
    """How long each frame took there and back, with nobody to read it."""
    times = []
    for frame in frames:
        message = json.dumps(frame).encode()
        if pause_s:
            time.sleep(pause_s)
        began_s = time.perf_counter()
        line.sendall(message)
        left = len(message)
        while left:
            left -= len(line.recv(left))
        times.append(time.perf_counter() - began_s)
    return times


def padded(frame: dict[str, Any]) -> dict[str, Any]:
    """The frame with as many signals as a stack would send."""
    more = {f"other_{i}": 1.37 * i for i in range(SIGNALS - len(frame))}
    return {**frame, **more}


def asked(
    client: GuardClient, frames: list[dict[str, Any]], first: int, pause_s: float
) -> list[float]:
    """How long each frame's decision took, none of which may be lost."""
    times = []
    for sequence, frame in enumerate(frames, start=first):
        if pause_s:
            time.sleep(pause_s)
        began_s = time.perf_counter()
        decision = client.review(sequence, PERIOD_S * sequence, frame)
        times.append(time.perf_counter() - began_s)
        assert decision["sequence"] == sequence, decision
    return times


def learned(frames: list[dict[str, Any]]) -> Model:
    """A model of the drive itself."""
    abstraction = from_expressions(PREDICATES, load_vocabulary("driving"))
    names = [abstraction.state_name(abstraction.encode(frame)) for frame in frames]
    tally = Tally()
    for begin in range(0, len(names), 500):
        tally.add_sequence(names[begin : begin + 500])
    return learn(
        tally,
        Support("observed"),
        Fraction(1),
        "absorb",
        abstraction=abstraction.as_dict(),
        period_s=PERIOD_S,
        laws=LAWS,
    )


@contextmanager
def connected(folder: Path, *options: str) -> Iterator[GuardClient]:
    """A client of a guard in another process, which is ready."""
    (folder / "token").write_text(TOKEN)
    command = [
        sys.executable, "-m", "forewarn.cli", "guard", "--json",
        "--socket", "127.0.0.1:0", "--token-file", str(folder / "token"),
        "--model", str(folder / "model.json"), *options,
    ]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["listening"]
        client = GuardClient(address, TOKEN, lease_s=60.0)
        try:
            yield client
        finally:
            client.close()
            process.terminate()
