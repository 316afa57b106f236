"""The conversation of a control loop with its guard, independent of the transport."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from statistics import median
from typing import BinaryIO, Protocol

from forewarn.abstractions.errors import ForewarnError, InvalidInput, clean, near_miss
from forewarn.abstractions.frame import Frame, Source
from forewarn.abstractions.serial import validated
from forewarn.monitors.guarding.decision import SEVERITY, Action, Decision, Kind
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.actions import Actions, ActionSpec, Argument
from forewarn.plugins.contracts import Replacing
from forewarn.plugins.loop.alerts import tell
from forewarn.plugins.loop.guarding import Guarding, substitutes_of
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.remote.messages import (
    HELLO_BYTES,
    LENGTH_BYTES,
    MAX_BYTES,
    PROTOCOL,
    Hello,
    Malformed,
    SceneTold,
    framed,
    is_hello,
    parse_frame,
    parse_object,
    write_decision,
    write_error,
    write_turn,
)

MAX_IDLE = 16

_CHUNK = 1 << 16
_GREET = 'send {"forewarn": "guard/1", "token": …, "provides": […]} first'

Lend = Callable[[Hello], AbstractContextManager[GuardedLoop]]
"""Lends a guarded loop for an episode, given the hello of the client."""


class WrongToken(ForewarnError):
    """A client did not send the right token; it receives no answer."""


class GuardPool:
    """A pool of guarded loops, from which clients borrow.

    Creating a guarded loop takes a while, because the risks of its laws are
    precomputed. The loop of a client that disconnects is therefore kept for the next
    similar client.

    Args:
        guarding: The configuration of the guards.
        fits: Raises an error if the description or the frame period of a client does
            not match the model.
    """

    def __init__(self, guarding: Guarding, fits: Fits | None = None) -> None:
        self._guarding, self._fits = guarding, fits
        self._lent = 0
        self._idle: dict[str, list[GuardedLoop]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def lend(self, hello: Hello) -> Iterator[GuardedLoop]:
        """Lends a guarded loop for a run, and takes it back at the end."""
        listeners: list[Listener] = []
        if self._fits is not None:
            self._fits(
                scenario=hello.scenario,
                vocabulary=hello.vocabulary,
                period_s=hello.period_s,
            )
            listeners.append(Pace(self._fits))
        with self._lock:
            self._lent += 1
            name = f"loop {self._lent}"
            idle = self._idle.get(hello.like)
            loop = idle.pop() if idle else None
        if loop is None:
            loop = self._open(hello)
        with loop:
            loop.prepare(name=name, listeners=listeners)
            try:
                yield loop
            finally:
                loop.close("the connection ended")
        with self._lock:
            if sum(map(len, self._idle.values())) < MAX_IDLE:
                self._idle.setdefault(hello.like, []).append(loop)

    def warm(self) -> Guard:
        """Creates a guard in advance, so that configuration errors appear early."""
        guarding = self._guarding
        if substitutes_of(guarding.judges()):
            return guarding.guard()  # the actions are unknown without a client
        hello = Hello(foresees=guarding.policy.when != "after")
        loop = self._open(hello)
        self._idle[hello.like] = [loop]
        return loop.guard

    def _open(self, hello: Hello) -> GuardedLoop:
        actions = None
        if hello.actions is not None:
            specs = (
                ActionSpec(name, dict.fromkeys(arguments, Argument("any")))
                for name, arguments in hello.actions.items()
            )
            actions = Actions(*specs)
        source = Source(
            PROTOCOL,
            hello.vocabulary or "",
            hello.provides or (),
            hello.period_s or 0.0,
            embedded=False,
        )
        return self._guarding.open(
            source,
            actions=actions,
            foresee=_told_by_frames if hello.foresees else None,
        )


def _told_by_frames(action: Action) -> Frame:
    """A placeholder for clients that send the predicted signals with each proposal."""
    raise InvalidInput("the frame has a proposal, but no 'foreseen' signals")


class _Beyond(Replacing):
    """The actuator for a client that carries out decisions itself.

    Args:
        can: The decisions that the client can carry out, according to its hello.
    """

    def __init__(self, can: frozenset[Kind]) -> None:
        self.can = can
        self.shown: bool | None = True
        """Whether the client reports that it has obeyed the last decision."""

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return self.shown


class Session:
    """A context manager that answers the messages of a loop; an error ends the session.

    Args:
        lend: Lends the guarded loop.
        token: The token that the hello must contain. If None, no hello is required.
    """

    def __init__(self, lend: Lend, token: str | None) -> None:
        self._lend, self._token = lend, token
        self._borrowed = ExitStack()
        self._loop: GuardedLoop | None = None
        self._beyond: _Beyond | None = None
        self._scene = SceneTold()
        self._begun = False
        self.welcome = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._borrowed.close()

    @property
    def most_bytes(self) -> int:
        """The size limit of a message in bytes; small until the token is received."""
        return MAX_BYTES if self.welcome or self._token is None else HELLO_BYTES

    def take(self, message: bytes) -> bytes | None:
        """Returns the answer to a message; a hello has no answer.

        Raises:
            WrongToken: The hello does not contain the token.
            ForewarnError: The message is malformed, or no guard is available.
        """
        content = parse_object(message)
        loop = self._loop
        if loop is None:
            greets = is_hello(content)
            if not greets and self._token is not None:
                raise Malformed("the first message is not a hello", mend=_GREET)
            self._check_token(content.get("token"))
            hello = validated(Hello, content, "", Malformed) if greets else Hello()
            loop = self._greet(hello)
            if greets:
                return None
        elif is_hello(content):
            raise Malformed("the hello was sent twice")
        told = parse_frame(content)
        frame, proposal = told.frame, told.action
        if not self._begun:
            self._begun = True
            _warn_of_missing(loop.guard.watch.signals, frame.values)
        self._scene.take(told.scene)
        decision = loop.review(frame, proposal, told.ahead)
        if self._beyond is None:
            return write_decision(decision)
        self._beyond.shown = told.obeyed
        turn = loop.carry_out(decision, proposal, frame)
        return write_turn(turn, loop.guard.policy.slow_cap_kmh)

    def _check_token(self, given: object) -> None:
        """Checks the token of a hello; only then are errors in the hello explained."""
        if self._token is not None:
            shown = str(given).encode("utf-8", "surrogatepass")
            if not hmac.compare_digest(shown, self._token.encode()):
                raise WrongToken("a control loop connected without the right token")
        self.welcome = True

    def _greet(self, hello: Hello) -> GuardedLoop:
        loop = self._borrowed.enter_context(self._lend(hello))
        if hello.can is not None:
            self._beyond = _Beyond(frozenset(hello.can))
        obeys = self._beyond or _Beyond(frozenset(SEVERITY))
        loop.begin(obeys, scenic=self._scene)
        self._loop = loop
        return loop


def _warn_of_missing(needed: Iterable[str], given: Collection[str]) -> None:
    """Logs the signals that the first frame lacks, and names that resemble them."""
    lacking = [name for name in needed if name not in given]
    hints = (
        f" ({mend.removesuffix('?')} by {clean(name)!r:.60}?)"
        for name in given
        if (mend := near_miss(name, lacking))
    )
    if lacking:
        names = ", ".join(lacking)
        tell(logging.WARNING, "the first frame lacks %s%s", names, next(hints, ""))


def serve_stream(
    receive: Callable[[int, bool], bytes],
    send: Callable[[bytes], object],
    session: Session,
) -> None:
    """Splits a stream into messages, and answers them until the stream ends.

    Args:
        receive: Returns at most the given number of bytes, or no bytes at the end of
            the stream. Its second argument says whether a message has begun.
        send: Sends an answer, which is preceded by its length.
        session: Answers the messages.
    """
    data = b""
    while chunk := receive(_CHUNK, bool(data)):
        data = data + chunk if data else chunk
        while len(data) >= LENGTH_BYTES:
            length = int.from_bytes(data[:LENGTH_BYTES], "big")
            if length > session.most_bytes:
                raise Malformed(
                    f"a message is longer than {session.most_bytes} bytes, or its "
                    f"first four bytes, {data[:LENGTH_BYTES]!r}, are not its length",
                    mend="precede each message with its length as four bytes, "
                    "big-endian",
                )
            end = LENGTH_BYTES + length
            if len(data) < end:
                break
            message, data = data[LENGTH_BYTES:end], data[end:]
            answer = session.take(message)
            if answer is not None:
                send(framed(answer))
    if data:
        raise Malformed("the stream ended in the middle of a message")


def serve_lines(source: BinaryIO, sink: BinaryIO, lend: Lend) -> int:
    """Answers one message per line until the input ends; returns the number of answers.

    The first line may be a hello, which needs no token.
    """
    answered = number = 0
    with Session(lend, None) as session:
        while line := source.readline(MAX_BYTES + 2):
            number += 1
            try:
                answer = session.take(line.rstrip(b"\r\n"))
            except ForewarnError as error:
                if isinstance(error, InvalidInput):
                    error = error.within("", f"line {number}")
                sink.write(write_error(str(error)) + b"\n")
                sink.flush()
                raise error from None
            if answer is not None:
                sink.write(answer + b"\n")
                sink.flush()
                answered += 1
    return answered


STEPS = 20
TOLERANCE = 1 / 3
"""The tolerated relative deviation from the expected period.

It is larger than usual jitter, but smaller than the deviation of a source with half or
twice the period.
"""


class Fits(Protocol):
    """Raises an error if the model does not match the description of a client."""

    def __call__(
        self,
        *,
        scenario: str | None = None,
        vocabulary: str | None = None,
        period_s: float | None = None,
        tolerance: float = 1e-9,
    ) -> None: ...


class Pace(Listener):
    """Checks the period of the first frames; ends the episode if the period is wrong.

    Args:
        fits: Raises an error if a period does not match the model.
    """

    def __init__(self, fits: Fits) -> None:
        self._fits = fits
        self._times: list[float] = []

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Stores the time of a frame; checks the period after some frames."""
        times = self._times
        if len(times) > STEPS or (times and not frame.time_s > times[-1]):
            return
        times.append(frame.time_s)
        if len(times) > STEPS:
            steps = (
                later - time for time, later in zip(times, times[1:], strict=False)
            )
            self._fits(period_s=round(median(steps), 6), tolerance=TOLERANCE)
