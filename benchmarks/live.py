"""Watching live: what it takes of the guard's time while ten viewers look on.

Half of the viewers read what they are given, half never do. The times are processor
time of the guard's own thread, so that other work on the machine does not count.
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from guard import Reviewing, stream
from measuring import Row
from online import drive, watching

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Decision
from forewarn.scenarios.live.feed import Feed, ToPage

VIEWERS = 10
BAR_S = 50e-6
RATE = 1000
"""Frames a second, as a fast loop has; of simulated frames each is told."""


def rows(quick: bool) -> Iterator[Row]:
    driven = drive(3_000 if quick else 20_000)
    fast = [Frame(i / RATE, i, values) for i, values in enumerate(driven)]
    said = f"{VIEWERS} viewers, half of them deaf"
    with serving() as (feed, token):
        for what, frames in ((f"{RATE} a second", fast), ("each", stream(driven))):
            alone, _ = told_s(feed(), frames)
            with viewers(feed.port, token):
                watched, dropped = told_s(feed(), frames)
            row = f"a frame told live, {what}, {said}, {dropped} dropped"
            yield Row(row, watched, BAR_S, "without any viewer", alone)


def told_s(feed: Feed, frames: Sequence[Frame]) -> tuple[float, int]:
    """The mean time that telling takes, and how many were dropped."""
    watch = watching([dict(each.values) for each in frames[:500]])
    reviewing = Reviewing(watch, [])
    feed.began("benchmark", reviewing.guard, None)
    times: list[float] = []
    began_s = time.monotonic()
    for i, frame in enumerate(frames):
        reviewing.now_s = frame.time_s
        decision: Decision = reviewing.guard.review(frame)
        start = time.thread_time()
        feed.decided(watch, frame, decision)
        times.append(time.thread_time() - start)
        left_s = began_s + i / RATE - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)
    assert feed.failures == 0
    dropped = feed.dropped
    feed.ended("enough")
    return statistics.fmean(times), dropped


@contextmanager
def serving() -> Iterator[tuple[ToPage, str]]:
    """The page's server, as `--live web` starts it."""
    command = [sys.executable, "-m", "forewarn.scenarios.live.server"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        said = json.loads(process.stdout.readline())
        try:
            feed = ToPage(said["host"], said["port"], said["token"])
            yield feed, said["page"].partition("#")[2]
        finally:
            process.stdin.close()


@contextmanager
def viewers(port: int, token: str) -> Iterator[None]:
    """Ten connections to the stream; every other one is never read."""
    head = (
        f"GET /stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: Bearer {token}\r\n\r\n"
    )
    lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(VIEWERS)]
    for line in lines:
        line.sendall(head.encode())

    def read(line: socket.socket) -> None:
        with suppress(OSError):
            while line.recv(1 << 16):
                pass

    for line in lines[::2]:
        threading.Thread(target=read, args=(line,), daemon=True).start()
    try:
        yield
    finally:
        for line in lines:
            line.close()
