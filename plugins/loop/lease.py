"""Leases: a decision is valid for an actuator only for a short time.

A lease starts expired. The loop renews it when a fresh frame has come, before the frame
is judged; the actuator acts only while it is held. A loop that dies, hangs or loses its
source stops renewing it, and after a review that took too long it has expired.

If the actuator is in another process, its lease belongs there; the one-file client of
`forewarn guard` has one. Where there is only one process, a `Watchdog` thread acts when
the lease runs out. It needs the interpreter lock: a native call that never releases it
blocks the watchdog too.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.contracts import Actuator


class Lease:
    """Held for `duration_s` after each renewal; at first it is not held.

    Args:
        duration_s: How long one renewal lasts.
        clock: Seconds that never go back.
    """

    def __init__(
        self, duration_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not (math.isfinite(duration_s) and duration_s > 0):
            raise InvalidInput(
                f"a lease's duration must be above 0, not {duration_s} s"
            )
        self.duration_s = duration_s
        self._clock = clock
        self._renewed_s = -math.inf

    def renew(self) -> None:
        """Holds it for another `duration_s`."""
        self._renewed_s = self._clock()

    def revoke(self) -> None:
        """Ends it at once."""
        self._renewed_s = -math.inf

    @property
    def left_s(self) -> float:
        """How long it is still held; 0 once it has expired."""
        gone_s = self._clock() - self._renewed_s
        # A clock that went back, or stopped being a number, holds no lease.
        return self.duration_s - gone_s if 0 <= gone_s < self.duration_s else 0.0

    @property
    def held(self) -> bool:
        """Whether the actuator may still act on its last decision."""
        return self.left_s > 0


class LeasedActuator:
    """An actuator that falls back unless the lease is held when it is to act.

    `lapses` counts how often it was not.
    """

    def __init__(self, actuator: Actuator, lease: Lease) -> None:
        self.actuator, self.lease = actuator, lease
        self.lapses = 0

    @property
    def can(self) -> frozenset[Kind]:
        return self.actuator.can

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if not self.lease.held:
            return self.lapse(frame)
        return self.actuator.carry_out(decision, proposal, frame)

    def lapse(self, frame: Frame) -> Action | None:
        """The action that replaces the one whose lease expired."""
        self.lapses += 1
        return self.fallback(frame)

    def fallback(self, frame: Frame | None = None) -> Action | None:
        try:
            return self.actuator.fallback(frame)
        except BaseException:
            self.lease.revoke()  # whoever watches it halts the world
            raise

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return self.actuator.obeyed(decision, frame)


class Watchdog:
    """A thread that sends the fallback for as long as a lease is not held.

    It also sends it before the first renewal: a loop that never starts is as dead as
    one that stopped. Use it with `with`; leaving ends the lease and sends it once more.

    Args:
        lease: What the loop renews.
        send_fallback: Puts the actuator into its fallback, in a thread of its own.
        repeat_s: How often it is sent again; also how often the lease is checked.
    """

    def __init__(
        self,
        lease: Lease,
        send_fallback: Callable[[], None],
        repeat_s: float | None = None,
    ) -> None:
        self.lease = lease
        self.failures = 0
        self._send = send_fallback
        longest_s = lease.duration_s / 4
        self._pause_s = min(repeat_s or longest_s, longest_s)
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="forewarn-watchdog", daemon=True
        )

    def __enter__(self) -> Watchdog:
        try:
            self._thread.start()
        except RuntimeError:
            self._try()  # no thread is left to do it later
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.lease.revoke()
        self._try()

    def _watch(self) -> None:
        while not self._done.is_set():
            left_s = self._left_s()
            if left_s <= 0:
                self._try()
                left_s = self._pause_s
            self._done.wait(min(left_s, self._pause_s))

    def _left_s(self) -> float:
        try:
            return self.lease.left_s
        except Exception:
            return 0.0  # a clock that fails holds no lease

    def _try(self) -> None:
        try:
            self._send()
        except BaseException:
            # Nobody is there to hear of it, and the next attempt may succeed.
            self.failures += 1
