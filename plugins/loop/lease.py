"""Leases, which limit how long an actuator may act on a decision.

A lease is initially expired. The loop renews it when a new frame arrives, before
reviewing the frame, and the actuator acts only while the lease is held. A loop that
dies, hangs or loses its source stops renewing the lease. The lease also expires if a
review takes too long.

If the actuator runs in another process, the lease must be in that process. The
single-file client of `forewarn guard` has its own lease. In a single process, a
`Watchdog` thread acts when the lease expires. The thread needs Python's global
interpreter lock, so a native call that never releases the lock also blocks the
watchdog.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.contracts import Actuator, Wrapping


class Lease:
    """A lease that expires `duration_s` after its last renewal; it is initially
    expired.

    Args:
        duration_s: The time in seconds for which a renewal is valid.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self, duration_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if not (math.isfinite(duration_s) and duration_s > 0):
            raise InvalidInput(
                f"the lease must last for a finite time above 0 s, not {duration_s} s"
            )
        self.duration_s = duration_s
        self._clock = clock
        self._renewed_s = -math.inf

    def renew(self) -> None:
        """Renews the lease for another `duration_s`."""
        self._renewed_s = self._clock()

    def revoke(self) -> None:
        """Ends the lease immediately."""
        self._renewed_s = -math.inf

    @property
    def left_s(self) -> float:
        """The time in seconds until the lease expires; 0 if it has expired."""
        gone_s = self._clock() - self._renewed_s
        # If the clock jumped backwards or returns NaN, the lease has expired.
        return self.duration_s - gone_s if 0 <= gone_s < self.duration_s else 0.0

    @property
    def held(self) -> bool:
        """Whether the actuator may still act on its last decision."""
        return self.left_s > 0


class LeasedActuator(Wrapping):
    """An actuator that uses the fallback if the lease has expired when it acts.

    The attribute `lapses` counts these fallbacks.
    """

    def __init__(self, actuator: Actuator, lease: Lease) -> None:
        super().__init__(actuator)
        self.lease, self.lapses = lease, 0

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if not self.lease.held:
            return self.lapse(frame)
        return super().carry_out(decision, proposal, frame)

    def lapse(self, frame: Frame) -> Action | None:
        """Counts an expired lease, and returns the fallback."""
        self.lapses += 1
        return self.fallback(frame)

    def fallback(self, frame: Frame | None = None) -> Action | None:
        try:
            return super().fallback(frame)
        except BaseException:
            self.lease.revoke()  # makes the watchdog halt the world
            raise


class Watchdog:
    """A thread that sends the fallback while a lease is expired.

    This includes the time before the first renewal, in case the loop never starts. A
    watchdog is a context manager: on exit it revokes the lease and sends the fallback
    once more.

    Args:
        lease: The lease that the loop renews.
        send_fallback: Sends the actuator's fallback; called from the watchdog's thread.
        repeat_s: The interval in seconds at which the lease is checked and the fallback
            repeated; at most a quarter of the lease's duration.
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
            self._try()  # without the thread, this is the only attempt
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
            return 0.0  # if the clock fails, the lease counts as expired

    def _try(self) -> None:
        try:
            self._send()
        except BaseException:
            # The error cannot be reported to anyone, and the next attempt may succeed.
            self.failures += 1
