"""Figures of docs/guard.md: the time of a law, a review, a record line and a socket
round trip.
"""

from __future__ import annotations

import hashlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from run import Row, each_call, learned, serving

from forewarn.abstractions.files import write_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.guarding.policy import STAGES, Policy
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.laws.automaton import compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.monitor import Monitor
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.remote.client import GuardClient

LAW = "always (brake > 5 % -> eventually[0, 10 s] speed < 0.5 km/h)"
LAWS = (
    "always (traffic_light == red and stop_line_distance < 20 m"
    " -> eventually[0, 10 s] speed < 0.5 km/h)",
    "always (lead_distance < 5 m -> eventually[0, 10 s] speed < 5 km/h)",
    "always (brake > 5 % -> eventually[0, 10 s] speed < 15 km/h)",
)
PREDICATES = (
    "speed < 0.5 km/h", "speed < 5 km/h", "speed < 15 km/h", "speed < 30 km/h",
    "stop_line_distance < 5 m", "stop_line_distance < 20 m", "lead_distance < 5 m",
    "lead_distance < 20 m", "traffic_light == red", "brake > 5 %",
    "required_deceleration > 3 m/s²", "in_junction",
)  # fmt: skip
SIGNALS = 60
PERIOD_S, PAUSE_S = 0.1, 0.05
DRIVING_S = 0.10079
"""ProbGuard's mean time in seconds for a decision in driving, from its paper (RQ3)."""
EMBODIED_S = 0.005
"""ProbGuard's best time in seconds for household robots with its cache; its times range
from 5 to 28 ms.
"""
TOKEN = "a token for the benchmark"  # noqa: S105

Values = dict[str, Any]


def rows(quick: bool) -> Iterator[Row]:
    frames = drive(5_000 if quick else 50_000)
    yield from one_law(frames)
    model = learned(frames, PREDICATES, LAWS, "driving", period_s=PERIOD_S)
    policy = Policy(horizon_s=5.0, deadline_s=dict.fromkeys(STAGES, 1.0))
    guarding = Guarding([model], policy)
    size = f"{len(PREDICATES)} predicates, {len(LAWS)} laws"
    step = per_call(guarding.watch().read, stream(frames))
    yield Row(f"full step: frame, {size}, risk", step, 4e-6)
    alone = per_call(Reviewing(guarding, []), stream(frames))
    peer = "ProbGuard, driving, published"
    yield Row(f"review: {size}, no record", alone, 15e-6, peer, DRIVING_S)
    peer = "ProbGuard, embodied, cached, published: 5 to 28 ms"
    yield Row("the same", alone, None, peer, EMBODIED_S)
    for changing, said in ((2, "half"), (1, "all")):
        line = f"review: {size}, a record line of {SIGNALS} signals, {said} changed"
        yield from recorded(line, guarding, frames, changing)
    with tempfile.TemporaryDirectory() as folder:
        write_json(Path(folder) / "model.json", model_as_dict(model))
        some = [padded(0, frame, 1) for frame in frames[: 2_000 if quick else 20_000]]
        yield from remote(f"over the socket: {SIGNALS} signals, {size}", some, folder)


def one_law(frames: Sequence[Values]) -> Iterator[Row]:
    vocabulary = load_vocabulary("driving")
    law = compile_law(parse_formula(LAW, vocabulary), PERIOD_S, vocabulary=vocabulary)
    ours = per_call(Monitor(law).step, frames)
    yield Row("one law online, frame by frame: 2 predicates, K = 100", ours, 0.3e-6)


def per_call(read: Callable[[Any], object], inputs: Sequence[Any]) -> float:
    """Returns the median time of a call over batches, including the loop."""
    size = 1_000
    times = []
    for begin in range(0, len(inputs), size):
        batch = inputs[begin : begin + size]
        start = time.perf_counter()
        for item in batch:
            read(item)
        times.append((time.perf_counter() - start) / len(batch))
    return statistics.median(times)


class Reviewing:
    """A guard whose clock shows the frames' times."""

    def __init__(self, guarding: Guarding, listeners: Sequence[Any]) -> None:
        self.now_s = 0.0
        self.guard = guarding.guard(clock=lambda: self.now_s, listeners=listeners)
        self.guard.reset()

    def __call__(self, frame: Frame) -> None:
        self.now_s = frame.time_s
        self.guard.review(frame)


def stream(frames: Sequence[Values]) -> list[Frame]:
    return [Frame(PERIOD_S * i, i, values) for i, values in enumerate(frames)]


def recorded(
    what: str, guarding: Guarding, frames: Sequence[Values], changing: int
) -> Iterator[Row]:
    """Measures a review with a long record line, and the minimum cost of such a line.

    One in `changing` of the added signals has a new value in every frame; in the SUMO
    worlds, it is one in five.
    """
    full = stream([padded(i, values, changing) for i, values in enumerate(frames)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        with RunRecord(path, {"scenario": "benchmark"}) as record:
            times = each_call(Reviewing(guarding, [record]), full)
        lines = [json.loads(line) for line in path.read_text().splitlines()[1:-1]]
    least = each_call(
        lambda line: hashlib.sha256(json.dumps(line).encode()).hexdigest(), lines
    )
    peer = "json.dumps and sha256 of the line"
    median = statistics.median(times)
    yield Row(what, median, 40e-6, peer, statistics.median(least), 1 / 2.5)
    yield Row("the same, slowest of 1,000", sorted(times)[len(times) * 999 // 1000],
              200e-6)  # fmt: skip


def padded(frame: int, values: Values, changing: int) -> Values:
    """Returns a frame padded to the number of signals that a driving stack would
    send.
    """
    more = {
        f"signal_{i}": 0.1 * i + 1 / 3 + (frame / 7 if i % changing == 0 else 0.0)
        for i in range(SIGNALS - len(values))
    }
    return {**values, **more}


# -- over a socket


def remote(what: str, frames: Sequence[Values], folder: str) -> Iterator[Row]:
    """Measures a round trip over loopback to a guard in another process."""
    peer = "an echo of the frame, from another process"
    asked = [(i, frame) for i, frame in enumerate(frames * 2)][: len(frames) + 200]
    # The rounds alternate, so that both run under the same load.
    with connected(folder) as client, echo() as line:
        for name, some, pause_s, bar in (
            ("back to back", asked[: len(frames)], 0.0, 200e-6),
            ("at 20 Hz", asked[len(frames) :], PAUSE_S, 500e-6),
        ):
            times = rounds(lambda each: client_round(client, *each), some, pause_s)
            least = rounds(lambda each: echoed(line, each[1]), some, pause_s)
            yield Row(f"{what}, {name}", times, bar, peer, least)
    with connected(folder, "--record", f"{folder}/runs") as client:
        times = rounds(lambda each: client_round(client, *each), asked, 0.0)
        yield Row(f"{what}, recorded", times)


def rounds(
    ask: Callable[[Any], object], frames: Sequence[tuple[int, Values]], pause_s: float
) -> float:
    """Returns the median time of a round trip, with a pause before each."""
    times = []
    for each in frames:
        time.sleep(pause_s)
        times += each_call(ask, [each])
    return statistics.median(times)


def client_round(client: GuardClient, sequence: int, frame: Values) -> None:
    decision = client.review(sequence, PERIOD_S * sequence, frame)
    assert decision["sequence"] == sequence, decision


def echoed(line: socket.socket, frame: Values) -> None:
    message = json.dumps(frame).encode()
    line.sendall(message)
    left = len(message)
    while left:
        left -= len(line.recv(left))


@contextmanager
def connected(folder: str, *options: str) -> Iterator[GuardClient]:
    """Provides a client connected to a guard in another process."""
    token = Path(folder) / "token"
    token.write_text(TOKEN)
    with serving(
        "guard", "--socket", "127.0.0.1:0", "--token-file", str(token),
        "--model", f"{folder}/model.json", *options,
    ) as said:  # fmt: skip
        client = GuardClient(said["listening"], TOKEN, lease_s=60.0)
        try:
            yield client
        finally:
            client.close()


@contextmanager
def echo() -> Iterator[socket.socket]:
    """Provides a connection to an echo process."""
    command = [sys.executable, __file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield line


def drive(length: int) -> list[Values]:
    """Returns the frames of a car that stops at some red lights and follows another
    car.
    """
    rng = np.random.default_rng(0)
    speed, to_line, lead, red, phase = 40.0, 150.0, 60.0, False, 0
    frames = []
    for _ in range(length):
        phase -= 1
        if phase < 0:
            red, phase = not red, int(rng.integers(100, 300))
        needed = speed**2 / 26 / max(to_line, 0.5) if red else 0.0
        braking = needed > 2 or lead < 8
        speed += rng.normal(-2.5, 0.5) if braking else rng.normal(0.6, 0.3)
        speed = float(np.clip(speed, 0, 50))
        to_line -= speed / 36
        lead = float(np.clip(lead + rng.normal(0, 1.5), 2, 80))
        inside = to_line < 0
        to_line = 150.0 if to_line < -15 else to_line
        frames.append({
            "speed": speed,
            "stop_line_distance": max(to_line, 0.0),
            "lead_distance": lead if lead < 75 else None,
            "traffic_light": "red" if red else "green",
            "brake": 30.0 if braking else 0.0,
            "required_deceleration": needed,
            "in_junction": inside,
        })  # fmt: skip
    return frames


def echo_peer() -> None:
    """Sends every message back, to measure a bare round trip over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while data := connection.recv(1 << 16):
                connection.sendall(data)


if __name__ == "__main__":
    echo_peer()
