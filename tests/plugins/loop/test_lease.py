"""Leases: the actuator is in its fallback whenever the loop is not heard of."""

from __future__ import annotations

import math
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.contracts import Actuator, World
from forewarn.plugins.loop.lease import Lease, LeasedActuator, Watchdog
from forewarn.plugins.testing import ActuatorContract
from forewarn.plugins.tiny import TinyActuator
from tests.plugins.doubles import Clock, TinyCase

PROPOSAL = Action("control", {"acceleration": 1.0})
PROCEED = Decision("proceed", 0, 0.0)
FRAME = Frame(0.0, 0, {})


class TestLeasedActuator(TinyCase, ActuatorContract):
    def make_actuator(self, world: World) -> Actuator:
        lease = Lease(60.0)
        lease.renew()
        return LeasedActuator(world.actuator(), lease)


def test_it_starts_expired() -> None:
    lease = Lease(0.5, Clock())
    assert (lease.held, lease.left_s) == (False, 0.0)
    leased = LeasedActuator(TinyActuator(), lease)
    assert leased.carry_out(PROCEED, PROPOSAL, FRAME) == TinyActuator().fallback()
    assert leased.lapses == 1


def test_it_is_held_for_its_time_and_no_longer() -> None:
    clock = Clock()
    lease = Lease(0.5, clock)
    leased = LeasedActuator(TinyActuator(), lease)
    lease.renew()
    clock.now_s = 0.499
    assert leased.carry_out(PROCEED, PROPOSAL, FRAME) == PROPOSAL
    clock.now_s = 0.5
    assert leased.carry_out(PROCEED, PROPOSAL, FRAME) == TinyActuator().fallback()
    lease.renew()
    assert lease.left_s == 0.5
    lease.revoke()
    assert not lease.held


@pytest.mark.parametrize("now_s", [-0.1, -1e9, math.nan, math.inf, -math.inf])
def test_a_clock_that_goes_wrong_holds_no_lease(now_s: float) -> None:
    clock = Clock()
    lease = Lease(0.5, clock)
    lease.renew()
    clock.now_s = now_s
    assert not lease.held
    lease.renew()
    assert math.isfinite(now_s) == lease.held


def test_it_is_held_at_once_whatever_the_clock_says() -> None:
    clock = Clock()
    lease = Lease(0.5, clock)
    for tenths in range(1000):
        clock.now_s = tenths / 10  # 0.6 + 0.5 - 0.6 is more than 0.5
        lease.renew()
        assert lease.held


@pytest.mark.parametrize("duration_s", [0.0, -1.0, math.nan, math.inf])
def test_a_lease_lasts_for_some_time(duration_s: float) -> None:
    with pytest.raises(InvalidInput, match="finite time above 0"):
        Lease(duration_s)


moves = st.lists(st.one_of(st.just("renew"), st.just("revoke"), st.floats(0, 2)))


@given(moves)
def test_it_is_never_held_longer_than_its_duration(steps: list[str | float]) -> None:
    clock = Clock()
    lease = Lease(1.0, clock)
    renewed_s = -math.inf
    for step in steps:
        if step == "renew":
            lease.renew()
            renewed_s = clock.now_s
        elif step == "revoke":
            lease.revoke()
            renewed_s = -math.inf
        else:
            clock.now_s += float(step)
        assert not lease.held or clock.now_s - renewed_s < 1.0


@pytest.mark.parametrize("jump_s", [-1e6, 1e6])
def test_a_wall_clock_that_jumps_changes_no_lease(
    jump_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, ended = Lease(60.0), Lease(0.01)
    held.renew()
    ended.renew()
    now_s = time.time() + jump_s
    monkeypatch.setattr(time, "time", lambda: now_s)
    monkeypatch.setattr(time, "time_ns", lambda: round(now_s * 1e9))
    time.sleep(0.02)
    assert held.held
    assert not ended.held


def wait_until(what: threading.Event) -> None:
    assert what.wait(20), "nothing came of it"


def test_the_watchdog_falls_back_when_a_review_hangs() -> None:
    fell_back, lease = threading.Event(), Lease(0.2)
    with Watchdog(lease, fell_back.set):
        wait_until(fell_back)  # before the loop has begun
        lease.renew()
        began_s = time.monotonic()
        fell_back.clear()
        # The thread that should go on hangs here, as in a review that never ends.
        wait_until(fell_back)
        assert time.monotonic() - began_s >= 0.2
        assert not lease.held


def test_the_watchdog_is_quiet_while_the_lease_is_held() -> None:
    sent: list[float] = []
    lease = Lease(60.0)
    lease.renew()
    with Watchdog(lease, lambda: sent.append(0.0), repeat_s=0.01) as watchdog:
        time.sleep(0.1)
        assert sent == []
    assert (len(sent), watchdog.failures, lease.held) == (1, 0, False)


def test_the_watchdog_tries_again_after_a_failure() -> None:
    third = threading.Event()
    attempts: list[int] = []

    def send() -> None:
        attempts.append(len(attempts))
        if len(attempts) >= 3:
            third.set()
            return
        raise OSError("the bus is busy")

    with Watchdog(Lease(0.02), send) as watchdog:
        wait_until(third)
    assert watchdog.failures == 2


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, MemoryError])
def test_nothing_that_a_send_raises_ends_the_watchdog(
    error: type[BaseException],
) -> None:
    third = threading.Event()
    attempts: list[int] = []

    def send() -> None:
        attempts.append(len(attempts))
        if len(attempts) >= 3:
            third.set()
            return
        raise error

    with Watchdog(Lease(0.02), send) as watchdog:
        wait_until(third)
    assert watchdog.failures == 2


def test_a_clock_that_fails_holds_no_lease() -> None:
    def clock() -> float:
        if threading.current_thread().name == "forewarn-watchdog":
            raise OSError("no clock")
        return 0.0

    fell_back, lease = threading.Event(), Lease(600.0, clock)
    lease.renew()
    with Watchdog(lease, fell_back.set, repeat_s=0.01):
        wait_until(fell_back)


def test_a_fallback_that_fails_ends_the_lease() -> None:
    class Broken(TinyActuator):
        def fallback(self, frame: Frame | None = None) -> Action:
            raise OSError("the bus is gone")

    lease = Lease(600.0)
    lease.renew()
    with pytest.raises(OSError, match="the bus is gone"):
        LeasedActuator(Broken(), lease).fallback(FRAME)
    assert not lease.held, "or the watchdog would wait"


def test_it_says_how_long_it_is_still_held() -> None:
    clock = Clock()
    lease = Lease(0.5, clock)
    lease.renew()
    clock.now_s = 0.2
    assert lease.left_s == pytest.approx(0.3)


def test_the_fallback_is_the_actuators_own() -> None:
    leased = LeasedActuator(TinyActuator(), Lease(0.5, Clock()))
    assert leased.fallback() == TinyActuator().fallback() is not None
    assert leased.can == TinyActuator().can


@pytest.mark.parametrize(("repeat_s", "pause_s"), [(None, 2), (0.5, 0.5), (100, 2)])
def test_a_lease_is_watched_four_times_as_finely_as_it_lasts(
    repeat_s: float | None, pause_s: float
) -> None:
    watchdog = Watchdog(Lease(8.0), lambda: None, repeat_s)
    assert watchdog._pause_s == pause_s
    assert watchdog._thread.daemon, "or it would hold up the end of the program"


def test_a_lease_that_is_revoked_is_noticed_before_it_would_have_run_out() -> None:
    fell_back, lease = threading.Event(), Lease(600.0)
    lease.renew()
    with Watchdog(lease, fell_back.set, repeat_s=0.01):
        assert not fell_back.wait(0.1)
        lease.revoke()
        wait_until(fell_back)


def test_leaving_waits_for_what_is_being_sent() -> None:
    sending, go_on, left = threading.Event(), threading.Event(), threading.Event()

    def send() -> None:
        if threading.current_thread() is not leaving:
            sending.set()
            go_on.wait(20)

    def leave() -> None:
        with Watchdog(Lease(600.0), send):
            wait_until(sending)
        left.set()

    leaving = threading.Thread(target=leave)
    leaving.start()
    wait_until(sending)
    assert not left.wait(0.1)
    go_on.set()
    wait_until(left)
    leaving.join()


def test_the_fallback_is_sent_again_after_a_pause() -> None:
    """Not as often as a thread can: the loop beside it needs the processor."""
    sent: list[float] = []
    began_s = time.monotonic()
    with Watchdog(Lease(600.0), lambda: sent.append(0.0), repeat_s=0.05):
        time.sleep(0.2)
    assert len(sent) <= 2 + (time.monotonic() - began_s) / 0.05
