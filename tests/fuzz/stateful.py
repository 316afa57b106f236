"""Tests control loops, the guard's server and its records with random events.

    python -m tests.fuzz.stateful --steps 1_000_000

Real clients connect to a real server over a socket, and the server records its
decisions. Frames are valid, faulty, late or out of order. The guard's clock jumps,
stops and fails during reviews. Listeners fail, disks are full, connections and servers
break, and unauthenticated clients send messages.

A reference, written from the guarantees alone, decides when a frame may pass and which
law it violates. A frame that passes although it must not, a violation that is neither
reported nor marked as lost, and a record that cannot be verified are errors (escapes).
"""

from __future__ import annotations

import itertools
import logging
import math
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import click
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.frame import Source
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.record import BrokenRecord, read_record
from forewarn.plugins.loop.alerts import LOGGER
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.remote.client import RETRY_S, GuardClient
from forewarn.plugins.remote.messages import Hello, framed
from forewarn.plugins.remote.server import GuardServer
from forewarn.plugins.remote.session import GuardPool
from tests.plugins.remote.fuzz import conversation
from tests.plugins.remote.serving import TOKEN

PERIOD_S = 0.1
OWED_S = 0.3
NEVER = "always not collision"
SLOWS = f"always (speed > 60 -> eventually[0, {OWED_S} s] speed <= 60)"
LOOPS: tuple[tuple[str, ...], ...] = (("speed", "collision"), ("collision", "speed"))
"""The signals of each loop, by which the guard distinguishes the loops."""

POLICY = Policy(hold_s=0.0)
LEASE_S = 20.0
"""The lease of the clients, which is long enough for a busy machine."""

STATES: dict[str, dict[str, Any]] = {
    "calm": {"speed": 20.0, "collision": False},
    "fast": {"speed": 90.0, "collision": False},
    "crash": {"speed": 20.0, "collision": True},
    "fast crash": {"speed": 90.0, "collision": True},
}
SPOILT: tuple[dict[str, Any], ...] = (
    {"speed": math.nan}, {"speed": math.inf}, {"speed": -1.0}, {"speed": 1e6},
    {"speed": None}, {"speed": "20"}, {"speed": True}, {"collision": 0},
    {"collision": None}, {"collision": "no"}, {"speed": []}, {"speed": ...},
    {"collision": ...},
)  # fmt: skip
LEAPS_S = (0.03, 0.6, 5.0, 1e6, -0.05, -10.0, math.nan, math.inf)


@cache
def model() -> Model:
    """Returns a model in which a slow car stays slow, and a fast car soon crashes."""
    abstraction = from_expressions(
        ["speed > 60 km/h", "collision"], load_vocabulary("driving")
    )
    tally = Tally()
    for _ in range(20):
        tally.add_sequence(["00"] * 50)
        tally.add_sequence(["10", "10", "10", "11"])
        tally.add_sequence(["01", "00"])
    return learn(
        tally, Support("observed"), Fraction(0), "absorb",
        abstraction=abstraction.as_dict(), period_s=PERIOD_S, laws=(NEVER, SLOWS),
    )  # fmt: skip


class Time:
    """The guard's clock, which can jump at a reading during the next review."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.at, self.by_s, self.leapt = -1, 0.0, False

    def __call__(self) -> float:
        if self.at == 0:
            self.now_s += self.by_s
            self.leapt = True
        self.at -= 1
        return self.now_s


class _Disk:
    """The file of a record, on a disk that can be full."""

    def __init__(self, file: Any, arena: Arena) -> None:
        self._file, self._arena = file, arena

    def write(self, line: bytes) -> int:
        if self._arena.room < len(line):
            written: int = self._file.write(line[: self._arena.room])
            return written
        whole: int = self._file.write(line)
        return whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Pool(GuardPool):
    """A pool of guards that use the clocks of an arena."""

    arena: Arena

    def _open(self, hello: Hello) -> GuardedLoop:
        source = Source("guard/1", provides=hello.provides or (), embedded=False)
        clock = self.arena.clocks[hello.provides or LOOPS[0]]
        return self._guarding.open(source, frame_clock=clock)


class Arena(Listener):
    """A server with its guards, their clocks, and the disk for their records."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="forewarn-fuzz-"))
        self.clocks = {loop: Time() for loop in LOOPS}
        self.episodes = dict.fromkeys(LOOPS, 0)
        self.reviews = 0
        self.fails, self.room = False, 1 << 30
        self.port = 0
        self.clients: list[GuardClient] = []
        guarding = Guarding(
            [model()], POLICY, listeners=[lambda: self], record=self.folder
        )
        self._pool = _Pool(guarding)
        self._pool.arena = self
        self.start()

    def start(self) -> None:
        logging.getLogger(LOGGER).setLevel(logging.CRITICAL)
        self.server = GuardServer(self._lend, TOKEN, port=self.port)
        self.port = self.server.port
        self._thread = threading.Thread(target=self.server.serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.server.close()
        self._thread.join()

    def settle(self) -> None:
        """Waits until the server has ended and recorded all closed connections."""
        heard = sum(each._socket is not None for each in self.clients)
        until_s = time.monotonic() + 60.0
        while len(self.server._threads) > heard and time.monotonic() < until_s:
            time.sleep(0.0002)
        assert len(self.server._threads) <= heard, "a connection did not end"

    @contextmanager
    def _lend(self, hello: Hello) -> Iterator[GuardedLoop]:
        with self._pool.lend(hello) as loop:
            record: Any = loop.record
            record._file = _Disk(record._file, self)
            self.episodes[hello.provides or LOOPS[0]] += 1
            yield loop

    def reviewed(self, *_: object) -> None:
        self.reviews += 1
        if self.fails:
            self.fails = False
            raise RuntimeError("a listener failed")


@cache
def arena() -> Arena:
    return Arena()


class Reference:
    """The expected decisions in one episode, derived from the guarantees alone."""

    def __init__(self) -> None:
        self.last: tuple[int, float] | None = None
        self.clock_s = -math.inf
        self.least_lag_s = math.inf
        self.whole = True  # whether the record is complete
        self.known = True  # whether the state of every law is known
        self.owed_s: float | None = None
        self.told = False  # whether the violation of SLOWS was reported

    def frame(
        self, number: int, time_s: float, values: dict[str, Any], began_s: float
    ) -> tuple[bool, set[str]]:
        """Returns whether a frame may pass, and the laws that it certainly violates."""
        sound = values in STATES.values()
        clock_ok = math.isfinite(began_s) and began_s >= self.clock_s
        if math.isfinite(began_s):
            self.clock_s = began_s
        ordered = self.last is None or (number > self.last[0] and time_s > self.last[1])
        if not clock_ok or not ordered:
            self.known = False
            return False, set()
        first, self.last = self.last is None, (number, time_s)
        lag_s = began_s - time_s
        ahead_s = self.least_lag_s - lag_s
        self.least_lag_s = min(lag_s, self.least_lag_s)
        late = lag_s - self.least_lag_s > POLICY.max_age_s + 1e-9
        leapt = not first and ahead_s > POLICY.max_age_s + PERIOD_S + 1e-9
        if leapt or not sound:
            self.known = False
            return False, set()
        broken = self._laws(time_s, values)
        calm = values["speed"] <= 60 and not values["collision"]
        if calm:
            self.known = True
        return calm and not late, broken

    def _laws(self, time_s: float, values: dict[str, Any]) -> set[str]:
        broken = {NEVER} if values["collision"] else set()
        if values["speed"] <= 60:
            self.owed_s, self.told = None, False
        elif self.owed_s is None:
            self.owed_s = time_s
        elif not self.told and time_s - self.owed_s > OWED_S - PERIOD_S / 2:
            self.told = True
            broken.add(SLOWS)
        return broken if self.known else broken & {NEVER}


class Loop:
    """A client, with the reference for its episode."""

    def __init__(self, where: Arena, provides: tuple[str, ...]) -> None:
        self.arena, self.provides = where, provides
        self.clock, self.time = where.clocks[provides], Time()
        self.client = GuardClient(
            f"127.0.0.1:{where.port}", TOKEN, provides, LEASE_S, self.time
        )
        self.number, self.time_s = 0, 0.0
        self.expect = Reference()

    def send(self, number: int, time_s: float, values: dict[str, Any]) -> str:
        """Sends a frame, checks the decision, and returns its kind."""
        before, reviews = self.arena.episodes[self.provides], self.arena.reviews
        self.clock.leapt = False
        room, fails = self.arena.room, self.arena.fails
        began_s = self.clock.now_s + (self.clock.by_s if self.clock.at == 0 else 0.0)
        decision = self.client.review(number, time_s, values)
        if self.client._socket is None:
            self.arena.settle()
        kind: str = decision["decision"]
        if self.arena.episodes[self.provides] != before:
            self.expect = Reference()
        if self.arena.reviews == reviews:
            assert kind == "stop", f"{kind} without a review"
            return kind
        may, broken = self.expect.frame(number, time_s, values, began_s)
        if room < 1 << 20:
            self.expect.whole = False
        passes = kind in ("proceed", "alert")
        if passes:
            COUNTS["passed"] += 1
            assert may, f"{values} passed"
            assert self.expect.whole, "a frame passed, but was not recorded"
            assert not fails, "a frame passed, but a listener failed"
        told = set(decision.get("violated", ()))
        COUNTS["violations"] += len(broken)
        missing = broken - told
        unsure = (
            "cannot judge" in decision["reason"] or "no guard" in decision["reason"]
        )
        lost = any("lost" in note for note in decision.get("notes", ()))
        assert not missing or unsure or lost, f"{missing} not reported: {decision}"
        return kind


COUNTS: Counter[str] = Counter()


class Life(RuleBasedStateMachine):
    """The random events of two loops that share a server."""

    def __init__(self) -> None:
        super().__init__()
        self.arena = arena()
        self.arena.room, self.arena.fails = 1 << 30, False
        for clock in self.arena.clocks.values():
            clock.now_s, clock.at = 0.0, -1
        self.loops = [Loop(self.arena, provides) for provides in LOOPS]
        self.arena.clients = [loop.client for loop in self.loops]
        self.began = self.arena.reviews
        self.known = set(self.arena.folder.glob("*.jsonl"))
        self.spoilt = False

    which = st.integers(0, 1)

    def _next(self, which: int, values: dict[str, Any]) -> None:
        COUNTS["steps"] += 1
        loop = self.loops[which]
        loop.number += 1
        loop.time_s = round(loop.time_s + PERIOD_S, 6)
        loop.clock.now_s += PERIOD_S
        loop.time.now_s += RETRY_S + 0.01
        COUNTS[loop.send(loop.number, loop.time_s, values)] += 1

    @rule(which=which, state=st.sampled_from(list(STATES)))
    def sound(self, which: int, state: str) -> None:
        self._next(which, dict(STATES[state]))

    @rule(which=which, times=st.integers(1, 10))
    def calm(self, which: int, times: int) -> None:
        for _ in range(times):
            self._next(which, dict(STATES["calm"]))

    @rule(which=which, state=st.sampled_from(list(STATES)), at=st.sampled_from(SPOILT))
    def spoilt_signal(self, which: int, state: str, at: dict[str, Any]) -> None:
        values = STATES[state] | at
        self._next(which, {k: v for k, v in values.items() if v is not ...})

    @rule(
        which=which,
        back=st.integers(0, 3),
        ahead_s=st.sampled_from((0.0, -1.0, 5.0, 1e9, math.nan)),
    )
    def out_of_order(self, which: int, back: int, ahead_s: float) -> None:
        COUNTS["steps"] += 1
        loop = self.loops[which]
        loop.time.now_s += RETRY_S + 0.01
        number, time_s = max(loop.number - back, 0), loop.time_s + ahead_s
        loop.send(number, time_s, dict(STATES["calm"]))

    @rule(
        which=which,
        at=st.integers(0, 4),
        by_s=st.sampled_from(LEAPS_S),
        state=st.sampled_from(list(STATES)),
    )
    def clock_leaps(self, which: int, at: int, by_s: float, state: str) -> None:
        loop = self.loops[which]
        loop.clock.at, loop.clock.by_s = at, by_s
        before_s = loop.clock.now_s
        sent = loop.arena.reviews
        passed = COUNTS["passed"]
        self._next(which, dict(STATES[state]))
        leapt, loop.clock.at = loop.clock.leapt, -1
        if leapt and at and loop.arena.reviews > sent:
            assert COUNTS["passed"] == passed, "a frame passed after a long review"
        if not math.isfinite(loop.clock.now_s):
            loop.clock.now_s = before_s + PERIOD_S

    @rule(which=which, by_s=st.sampled_from((0.1, 0.4, 0.6, 100.0)))
    def frames_are_late(self, which: int, by_s: float) -> None:
        COUNTS["steps"] += 1
        self.loops[which].clock.now_s += by_s

    @rule(which=which, by_s=st.sampled_from((LEASE_S + 0.01, 1e6, -1.0, math.nan)))
    def nobody_asks(self, which: int, by_s: float) -> None:
        COUNTS["steps"] += 1
        loop = self.loops[which]
        before_s = loop.time.now_s
        loop.time.now_s += by_s
        assert loop.client.decision()["decision"] == "stop", "an old decision counts"
        loop.time.now_s = before_s

    @rule(which=which)
    def hangs_up(self, which: int) -> None:
        COUNTS["steps"] += 1
        loop = self.loops[which]
        loop.client.close()
        self.arena.settle()
        assert loop.client.decision()["decision"] == "stop"

    @rule(
        which=which,
        number=st.integers(-2, 0),
        junk=st.sampled_from(
            (
                b"",
                b"{}",
                b"[]",
                b'{"decision":"proceed"}',
                b"\xff",
                b'{"a":1,"a":2}',
                b'{"decision":"slow","sequence":0,"cap_kmh":1e999}',
            )
        ),
    )
    def old_answers(self, which: int, number: int, junk: bytes) -> None:
        """Inserts an answer to an earlier frame, or an invalid answer."""
        loop = self.loops[which]
        if loop.client._socket is not None:
            old = b'{"decision":"proceed","sequence":%d}' % (loop.number + number)
            loop.client._data += framed(old if number else junk)
        self._next(which, dict(STATES["fast"]))

    @rule(which=which, state=st.sampled_from(list(STATES)))
    def observer_fails(self, which: int, state: str) -> None:
        self.arena.fails = True
        self._next(which, dict(STATES[state]))
        self.arena.fails = False

    @rule(room=st.sampled_from((0, 1, 100)), which=which)
    def disk_is_full(self, room: int, which: int) -> None:
        self.arena.room, self.spoilt = room, True
        self._next(which, dict(STATES["calm"]))
        self.arena.room = 1 << 30

    @rule(luck=st.integers(0, 1 << 16))
    def strangers(self, luck: int) -> None:
        COUNTS["steps"] += 1
        said = b"".join(conversation(Random(luck)))
        said = said.replace(TOKEN.encode(), b"x" * len(TOKEN))
        address = "127.0.0.1", self.arena.port
        with socket.create_connection(address, 20) as line, suppress(OSError):
            line.sendall(said)
            line.shutdown(socket.SHUT_WR)
            while line.recv(65536):
                pass
        self.arena.settle()

    @rule(seldom=st.integers(0, 20))
    def server_ends(self, seldom: int) -> None:
        COUNTS["steps"] += 1
        if seldom:
            return
        self.arena.stop()
        for loop in self.loops:
            decision = loop.client.review(loop.number + 1, loop.time_s + 0.05, {})
            assert decision["decision"] == "stop", "the server is closed"
        self.arena.start()

    def teardown(self) -> None:
        for loop in self.loops:
            loop.client.close()
        self.arena.settle()
        written = 0
        for path in self.arena.folder.glob("*.jsonl"):
            if path in self.known:
                continue
            written += self._verified(path)
            path.unlink()
        if not self.spoilt:
            assert written == self.arena.reviews - self.began, "reviews are missing"
        COUNTS["lives"] += 1

    def _verified(self, path: Path) -> int:
        reviews = 0
        try:
            for line in read_record(path):
                reviews += "decision" in line.content
        except BrokenRecord as error:
            assert self.spoilt and (
                "the record has no end line: it was not closed, or it is truncated"
            ) in str(error), error
            return reviews
        if COUNTS["records"] % 20 == 0:
            assert replay(path) == (reviews, None)
        COUNTS["records"] += 1
        return reviews


def live(steps: int, first: int, examples: int = 200, each: int = 50) -> None:
    """Runs episodes with increasing seeds until the number of steps is reached."""
    kept = settings(
        max_examples=examples, stateful_step_count=each, deadline=None, database=None,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    for number in itertools.count(first):
        run_state_machine_as_test(seed(number)(Life), settings=kept)
        if COUNTS["steps"] >= steps:
            return
        if sys.stderr.isatty():
            click.echo(f"\r{COUNTS['steps']:,} steps", nl=False, err=True)


@click.command()
@click.option("--steps", default=1_000_000, show_default=True)
@click.option("--seed", "first", default=1, show_default=True)
def main(steps: int, first: int) -> None:
    """Run episodes until an escape is found or the number of steps is reached."""
    try:
        live(steps, first)
    finally:
        shutil.rmtree(arena().folder)
    said = ", ".join(f"{n:,} {what}" for what, n in sorted(COUNTS.items()))
    click.echo(f"0 escapes: {said}")


if __name__ == "__main__":
    main()
