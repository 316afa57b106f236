"""Every stage and every inner call of a review goes wrong once: nothing gets by.

A drive with violations is reviewed with one fault at one place. Then no frame passes
that would not have passed without it, no violation is lost without the decisions
saying that a frame was, and the record verifies and replays.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from forewarn.abstractions.files import write_json
from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.guarding.certificate import digest_of
from forewarn.monitors.guarding.decision import RANK, Decision
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import RunRecord, read_record
from forewarn.monitors.guarding.watch import Watch, load_watch
from forewarn.plugins.loop.records import model_file
from forewarn.plugins.loop.replay import replay
from tests.monitors.guarding.test_guard import PROVIDES, Clock, frame, model
from tests.monitors.guarding.test_lost_frames import LOST

DRIVE = [
    frame(0, "far"), frame(1, "far"), frame(2, "rolling"), frame(3, "rolling"),
    frame(4, "far", speed=80.0), frame(5, "rolling"), frame(6, "rolling"),
    frame(7, "far"), *(frame(step, "stopped") for step in range(8, 12)),
]  # fmt: skip
"""Breaks the one law at frame 4, the other at frames 5 and 8 or so."""

POLICIES = {
    "only alerts": Policy(rules={"*": (Step("alert", 0.3),)}, hold_s=0.0),
    "acts": Policy(hold_s=0.2, horizon_s=0.2),
}

Fault = Callable[[Clock], None]


def _raises(error: BaseException) -> Fault:
    def fault(clock: Clock) -> None:
        raise error

    return fault


def leaps(by_s: float) -> Fault:
    def fault(clock: Clock) -> None:
        clock.now_s += by_s

    return fault


FAULTS: dict[str, Fault] = {
    "exception": _raises(RuntimeError("injected")),
    "memory": _raises(MemoryError()),
    "interrupt": _raises(KeyboardInterrupt()),
    "delay": leaps(0.03),
    "long delay": leaps(5.0),
    "clock goes back": leaps(-1.0),
    "clock is none": leaps(math.nan),
}


class AtCall:
    """Lets a fault happen at the k-th call made inside forewarn's own modules.

    Args:
        k: Which call, from 0.
        fault: What happens.
        clock: The guard's.
        other: A module besides them.
    """

    def __init__(self, k: int, fault: Fault, clock: Clock, other: str = "") -> None:
        self.left, self.fault, self.clock, self.other = k, fault, clock, other
        self.where = ""

    def __call__(self, at: FrameType, event: str, arg: object) -> None:
        name = at.f_globals.get("__name__", "")
        inside = name == self.other or name.startswith("forewarn.")
        if event != "call" or not inside or self.where:
            return
        # These begin a turn, and there is nothing yet that could be lost.
        if name != self.other and at.f_code.co_name in ("decide", "review"):
            return
        self.left -= 1
        if self.left < 0:
            self.where = f"{at.f_code.co_name}:{at.f_lineno}"
            self.fault(self.clock)


@dataclass
class Scene:
    """A guard and where its records go."""

    watch: Watch
    policy: Policy
    folder: Path
    digest: str
    count: int = 0

    def drive(
        self,
        frames: list[Frame],
        faulty: int = -1,
        k: int = 0,
        fault: Fault | None = None,
    ) -> tuple[list[Decision | None], Path, str]:
        """Its decisions; None where a review was interrupted; and where that was."""
        clock, where = Clock(), ""
        guard = Guard(self.watch, self.policy, provides=PROVIDES, clock=clock)
        guard.reset()
        self.count += 1
        path = self.folder / f"{self.count}.jsonl"
        header = {
            "model": {"sha256": self.digest},
            "policy": self.policy.as_dict(),
            "laws": [law.law.reference for law in self.watch.laws],
            "provides": list(PROVIDES),
        }
        decisions: list[Decision | None] = []
        with RunRecord(path, header) as record:
            guard.reset([record])
            for number, each in enumerate(frames):
                if math.isfinite(clock.now_s):
                    clock.now_s = max(clock.now_s, each.time_s)
                else:
                    clock.now_s = each.time_s
                injected = (
                    AtCall(k, fault, clock) if number == faulty and fault else None
                )
                sys.setprofile(injected)
                try:
                    decisions.append(guard.review(each))
                except KeyboardInterrupt:
                    decisions.append(None)
                finally:
                    sys.setprofile(None)
                where = where or (injected.where if injected else "")
        return decisions, path, where


@pytest.fixture(params=["only alerts", pytest.param("acts", marks=pytest.mark.slow)])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    policy = POLICIES[request.param]
    write_json(tmp_path / "model.json", model_as_dict(model()))
    digest = digest_of(tmp_path / "model.json")
    (tmp_path / "model.json").rename(model_file(tmp_path / "any", digest))
    watch = load_watch(model(), horizon_s=policy.horizon_s, provides=PROVIDES)
    return Scene(watch, policy, tmp_path, digest)


def check(
    calm: list[Decision | None], faulty: list[Decision | None], what: str
) -> None:
    """Nothing passes that would not have, and no violation is lost in silence."""
    lost = False
    for number, (right, now) in enumerate(zip(calm, faulty, strict=True)):
        assert right is not None
        if now is None:
            lost = True
            continue
        said = "cannot judge" in now.reason or LOST in now.notes or lost
        missing = set(right.violated) - set(now.violated)
        assert not missing or said, (what, number, right, now)
        assert RANK[now.kind] >= RANK[right.kind] or said, (what, number, right, now)
        if "cannot judge" in now.reason or LOST in now.notes:
            assert RANK[now.kind] >= RANK["stop"], (what, number, now)
        lost = lost and "broken off" in now.reason


def check_record(path: Path, what: str) -> None:
    lines = []
    try:
        lines = list(read_record(path))
    except Exception as error:
        # A record that failed says that it is cut, and no more.
        assert (
            "the record has no end line: it was not closed, or it is truncated"
        ) in str(error), (what, error)
        return
    reviews = sum("decision" in line.content for line in lines)
    assert replay(path) == (reviews, None), what


def _places(scene: Scene, faulty: int, fault: Fault) -> Iterator[tuple[str, Any]]:
    for k in range(400):
        decisions, path, where = scene.drive(DRIVE, faulty, k, fault)
        if not where:
            return
        yield where, (decisions, path)
    raise AssertionError("a review makes more calls than were tried")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_at_any_inner_call_lets_nothing_by(name: str, scene: Scene) -> None:
    calm, path, _ = scene.drive(DRIVE)
    check_record(path, "no fault")
    assert any(each and each.violated for each in calm)
    found = 0
    for where, (decisions, path) in _places(scene, 4, FAULTS[name]):
        check(calm, decisions, f"{name} at {where}")
        if found % 20 == 0:
            check_record(path, f"{name} at {where}")
        found += 1
    assert found > 20


@pytest.mark.parametrize("number", range(len(DRIVE)))
def test_a_nan_signal_lets_no_frame_pass(number: int, scene: Scene) -> None:
    calm, *_ = scene.drive(DRIVE)
    for name in PROVIDES:
        spoilt = list(DRIVE)
        values = dict(DRIVE[number].values) | {name: math.nan}
        spoilt[number] = Frame(DRIVE[number].time_s, number, values)
        decisions, path, _ = scene.drive(spoilt)
        if number:  # before the first frame there is no episode
            check(calm, decisions, f"{name} of frame {number}")
    check_record(path, f"frame {number}")


@pytest.mark.parametrize("missing", [(1,), (2, 3), (4,), (5, 6, 7)])
def test_obligations_expire_while_frames_are_missing(
    missing: tuple[int, ...], scene: Scene
) -> None:
    seen = [each for each in DRIVE if each.sequence not in missing]
    decisions, path, _ = scene.drive(seen)
    ends = {each.time_s: each for each in decisions if each is not None}
    # Time goes on for the laws: what is owed goes unmet when it is due.
    assert any(each.violated for each in ends.values())
    check_record(path, str(missing))
