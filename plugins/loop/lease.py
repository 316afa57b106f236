"""Leases: a decision is valid for an actuator only for a short time.

A lease starts expired. The loop renews it when a fresh frame arrives, before the frame
is judged, and the actuator acts only while the lease is held. A loop that dies, hangs
or loses its source stops renewing its lease, and a review that takes too long outlasts
it.

If the actuator is in another process, the lease belongs in that process; the one-file
client of `forewarn guard` has one. In a single process, a `Watchdog` thread acts when
the lease expires. The thread needs the interpreter lock, so a native call that never
releases the lock blocks the watchdog too.
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
    """A lease that is held for `duration_s` after each renewal, and not before the
    first.

    Args:
        duration_s: The duration of a renewal in seconds.
        clock: A monotonic clock in seconds.
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
        """Holds the lease for another `duration_s`."""
        self._renewed_s = self._clock()

    def revoke(self) -> None:
        """Ends the lease immediately."""
        self._renewed_s = -math.inf

    @property
    def left_s(self) -> float:
        """The time until the lease expires; 0 if it has."""
        gone_s = self._clock() - self._renewed_s
        # If the clock has gone back or is NaN, the lease is not held.
        return self.duration_s - gone_s if 0 <= gone_s < self.duration_s else 0.0

    @property
    def held(self) -> bool:
        """Whether the actuator may still act on its last decision."""
        return self.left_s > 0


class LeasedActuator:
    """An actuator that falls back if the lease is not held when it acts.

    `lapses` counts these fallbacks.
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
        """The action to use if the lease has expired."""
        self.lapses += 1
        return self.fallback(frame)

    def fallback(self, frame: Frame | None = None) -> Action | None:
        try:
            return self.actuator.fallback(frame)
        except BaseException:
            self.lease.revoke()  # the watchdog then halts the world
            raise

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return self.actuator.obeyed(decision, frame)


class Watchdog:
    """A thread that sends the fallback while a lease is not held.

    This includes the time before the first renewal, in case the loop never starts. Use
    with `with`: leaving the block ends the lease and sends the fallback once more.

    Args:
        lease: The lease that the loop renews.
        send_fallback: Sends the actuator's fallback; called in the watchdog's thread.
        repeat_s: The interval at which the lease is checked and the fallback repeated.
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
            self._try()  # no thread is available to do this later
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
            return 0.0  # with a failing clock the lease is not held

    def _try(self) -> None:
        try:
            self._send()
        except BaseException:
            # There is nobody to report to, and the next attempt may succeed.
            self.failures += 1
