"""Every inner call of the guarded loop goes wrong once: nothing gets by.

As in the faults of a review, with all that stands around the guard: the intervener,
the actuator, listeners, alerts, the prompter, foresight and the record. A
fault is an exception, an interrupt, a delay or a leap of the clock at one inner call;
or a part that gives nonsense. Then no proposal is carried out that would not have been
without it, none at all after a delay, no violation is lost in silence, and the record
verifies and replays.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.files import write_json
from forewarn.abstractions.frame import Frame
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.guarding.certificate import digest_of
from forewarn.monitors.guarding.decision import (
    RANK,
    SEVERITY,
    Action,
    Decision,
    Judge,
    Judgement,
    Kind,
    Turn,
)
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.listening import Listener
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.record import RunRecord
from forewarn.monitors.guarding.watch import Watch, load_watch
from forewarn.plugins.loop.approval import Answer
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.loop.records import model_file
from tests.monitors.guarding.test_faults import (
    DRIVE,
    AtCall,
    Fault,
    check_record,
    leaps,
)
from tests.monitors.guarding.test_guard import PROVIDES, Clock, model
from tests.monitors.guarding.test_lost_frames import LOST

STAY = Action("stay")
MILD, HARD = Step("alert", 0.1), Step("stop", 0.9)

POLICIES = {
    "stops": Policy(hold_s=0.2, horizon_s=0.2),
    "alerts": Policy(rules={"*": (MILD,)}, hold_s=0.0, horizon_s=0.2),
    "reflects": Policy(
        rules={"*": (MILD, Step("reflect", 0.3), HARD)},
        hold_s=0.0,
        horizon_s=0.2,
        when="both",
    ),
    "asks": Policy(
        rules={"*": (MILD, Step("ask", 0.3), Step("slow", 0.9))},
        hold_s=0.2,
        horizon_s=0.2,
        ack_s=0.1,
    ),
    "cuts": Policy(
        rules={"*": (MILD, Step("skip", 0.3))},
        fallback="cut",
        hold_s=0.2,
        horizon_s=0.2,
    ),
}
"""Their lease is half a second, and so is the oldest that a frame may be."""


class _Injected(Exception):
    """What does not even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("nobody knows")


def _raises(error: Callable[[], BaseException]) -> Fault:
    def fault(clock: Clock) -> None:
        raise error()

    return fault


FAULTS: dict[str, Fault] = {
    "exception": _raises(_Injected),
    "no room": _raises(lambda: OSError(28, "no room")),
    "memory": _raises(MemoryError),
    "interrupt": _raises(KeyboardInterrupt),
    "exit": _raises(SystemExit),
    "delay": leaps(0.03),
    "starved": leaps(0.6),
    "long delay": leaps(1e6),
    "clock goes back": leaps(-3.0),
    "clock is none": leaps(math.nan),
}
LATE = {"starved", "long delay", "clock goes back", "clock is none"}
"""After these what was decided no longer counts."""


@dataclass
class Opened:
    """Gives the first run a record that is already open."""

    record: RunRecord
    one_file: bool = True

    def open(self, *_: object) -> RunRecord:
        return self.record


@dataclass
class Hands:
    """An actuator that does what it is told, and remembers what that was."""

    done: list[str]
    can: frozenset[Kind] = frozenset(SEVERITY)
    shows: Any = True
    gives: Any = None

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        self.done.append(decision.kind)
        if self.gives is not None:
            given: Action | None = self.gives
            return given
        return proposal if RANK[decision.kind] <= RANK["alert"] else STAY

    def fallback(self, frame: Frame | None = None) -> Action | None:
        self.done.append("fallback")
        return STAY

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        shown: bool | None = self.shows
        return shown


class Ears(Listener):
    """A listener that has nothing to say."""

    def reviewed(self, *_: object) -> None:
        pass

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        pass

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        pass

    def alerted(self, decision: Decision) -> None:
        pass


class Nobody:
    def ask(self, decision: Decision, proposal: Action | None) -> Answer:
        raise RuntimeError("there is nobody")


Ran = list[Turn | None]
"""What became of each frame; None where that broke off, and nothing was done."""


def passes(turn: Turn | None) -> bool:
    """Whether what was proposed, or anything but to stay, is done."""
    return turn is not None and turn.executed not in (None, STAY)


@dataclass
class Scene:
    """A guard, and where its records go."""

    watch: Watch
    policy: Policy
    folder: Path
    digest: str
    count: int = 0

    def drive(
        self,
        faulty: int = -1,
        k: int = 0,
        fault: Fault | None = None,
        hands: Hands | None = None,
        frames: list[Frame] = DRIVE,
        **parts: Any,
    ) -> tuple[Ran, Path, str]:
        """What became of each frame, the record, and where the fault happened."""
        clock, where = Clock(), ""
        guard = Guard(self.watch, self.policy, provides=PROVIDES, clock=clock)
        self.count += 1
        path = self.folder / f"{self.count}.jsonl"
        header = {
            "model": {"sha256": self.digest},
            "policy": self.policy.as_dict(),
            "laws": [law.law.reference for law in self.watch.laws],
            "provides": list(PROVIDES),
        }
        ears = Ears()
        settings: dict[str, Any] = {
            "clock": clock, "listeners": [ears], "foresee": lambda action: frames[0],
            "approver": Nobody(), "records": Opened(RunRecord(path, header)),
        }  # fmt: skip
        found: Ran = []
        with GuardedLoop(guard, **settings | parts) as loop:
            loop.begin(hands or Hands([]))
            for number, frame in enumerate(frames):
                clock.now_s = max(frame.time_s, clock.now_s, key=_or_else)
                proposal = Action("go", {"frame": number})
                injected = None
                if number == faulty and fault is not None:
                    injected = AtCall(k, fault, clock, __name__)
                turn = None
                with suppress(BaseException):
                    sys.setprofile(injected)
                    try:
                        turn = loop.decide(frame, proposal)
                    finally:
                        sys.setprofile(None)
                found.append(turn)
                where = where or (injected.where if injected else "")
        return found, path, where


def _or_else(time_s: float) -> float:
    return time_s if math.isfinite(time_s) else -math.inf


QUICK = "stops"
SHARP = "exception"
"""What differs between policies and frames shows with this one already."""


@pytest.fixture(params=POLICIES)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    return make_scene(POLICIES[request.param], tmp_path)


def _tried() -> Iterator[Any]:
    """Each policy, fault and frame; those that seldom find more are for the soak."""
    for policy, name, number in product(POLICIES, FAULTS, (1, 2, 4)):
        quick = policy == QUICK and number == 1 or name == SHARP and number == 4
        marks = () if quick else pytest.mark.soak
        yield pytest.param(policy, name, number, marks=marks)


def make_scene(policy: Policy, folder: Path) -> Scene:
    write_json(folder / "model.json", model_as_dict(model()))
    digest = digest_of(folder / "model.json")
    (folder / "model.json").rename(model_file(folder / "any", digest))
    watch = load_watch(model(), horizon_s=policy.horizon_s, provides=PROVIDES)
    return Scene(watch, policy, folder, digest)


def check(calm: Ran, faulty: Ran, what: str) -> None:
    """Nothing is carried out that would not have been, no violation lost in silence."""
    lost = False
    for number, (right, now) in enumerate(zip(calm, faulty, strict=True)):
        assert right is not None
        if now is None:
            lost = True
            continue
        decision = now.decision
        assert passes(right) or not passes(now), (what, number, right, now)
        unsure = "cannot judge" in decision.reason or LOST in decision.notes
        assert not (unsure and passes(now)), (what, number, now)
        missing = set(right.decision.violated) - set(decision.violated)
        assert not missing or unsure or lost, (what, number, right, now)
        lost = False


def _places(scene: Scene, faulty: int, fault: Fault) -> Iterator[tuple[str, Any]]:
    for k in range(1000):
        found, path, where = scene.drive(faulty, k, fault)
        if not where:
            return
        yield where, (found, path)
    raise AssertionError("a turn makes more calls than were tried")


@pytest.mark.parametrize(("policy", "name", "number"), list(_tried()))
def test_a_fault_at_any_inner_call_of_the_loop_lets_nothing_by(
    policy: str, name: str, number: int, tmp_path: Path
) -> None:
    scene = make_scene(POLICIES[policy], tmp_path)
    calm, path, _ = scene.drive()
    check_record(path, "no fault")
    assert any(map(passes, calm))
    assert any(each and each.decision.violated for each in calm)
    found = 0
    for where, (ran, path) in _places(scene, number, FAULTS[name]):
        what = f"{name} at {where}"
        check(calm, ran, what)
        assert name not in LATE or not passes(ran[number]), what
        if found % 20 == 0:
            check_record(path, what)
        found += 1
    assert found > 60


@dataclass
class Failing(Ears):
    """A part that fails whenever it is called."""

    error: Callable[[], BaseException]
    part: str = ""

    def __post_init__(self) -> None:
        if self.part:
            setattr(self, self.part, self)

    def __call__(self, *_: object) -> None:
        raise self.error()

    def ask(self, *_: object) -> Answer:
        raise self.error()


ERRORS = {"exception": _Injected, "memory": MemoryError, "system": OSError}


@pytest.mark.parametrize("part", ["alerted", "reviewed", "approver", "foresee"])
@pytest.mark.parametrize("error", ERRORS)
def test_a_part_that_always_fails_ends_no_turn(
    part: str, error: str, scene: Scene
) -> None:
    calm, *_ = scene.drive()
    given: dict[str, Any] = {"listeners": [Failing(ERRORS[error], part)]}
    if part in ("approver", "foresee"):
        given = {part: Failing(ERRORS[error])}
    ran, path, _ = scene.drive(**given)
    assert None not in ran
    check(calm, ran, f"{part} {error}")
    if part == "reviewed":
        assert not any(map(passes, ran))
    check_record(path, f"{part} {error}")


@pytest.mark.parametrize("error", [*ERRORS.values(), KeyboardInterrupt, SystemExit])
def test_after_a_listener_that_fails_nothing_passes_until_a_new_run(
    error: Callable[[], BaseException], scene: Scene
) -> None:
    ran, path, _ = scene.drive(listeners=[Failing(error, "decided")])
    assert ran == [None] * len(DRIVE)
    check_record(path, "a witness")


@pytest.mark.parametrize("nonsense", [math.nan, "yes", (), object()])
def test_an_actuator_that_says_nonsense_lets_nothing_by(
    nonsense: Any, scene: Scene
) -> None:
    calm, *_ = scene.drive()
    for hands in (Hands([], shows=nonsense), Hands([], can=nonsense)):
        ran, path, _ = scene.drive(hands=hands)
        assert None not in ran
        check(calm, ran, repr(hands))
        check_record(path, repr(hands))


@pytest.mark.parametrize("nonsense", [math.nan, "yes", (), object()])
def test_foresight_that_is_nonsense_lets_nothing_by(
    nonsense: Any, scene: Scene
) -> None:
    calm, *_ = scene.drive()
    frame = Frame(0.2, 2, {"speed": nonsense})
    for foreseen in (nonsense, frame):
        ran, path, _ = scene.drive(foresee=lambda action, it=foreseen: it)
        assert None not in ran
        check(calm, ran, repr(foreseen))
        check_record(path, repr(foreseen))


def test_a_judge_that_names_no_speed_leaves_the_policys(tmp_path: Path) -> None:
    class Slows(Judge):
        rules: dict[str, str] = {"slow": "slow down"}

        def as_dict(self) -> dict[str, Any]:
            return {}

        def judge(self, frame: Frame, proposal: Action | None) -> Judgement:
            return Judgement("slow", "slow", cap_kmh=math.nan)

    watch = make_scene(POLICIES["alerts"], tmp_path).watch
    guard = Guard(watch, POLICIES["alerts"], clock=Clock(), judges=[Slows()])
    assert guard.review(DRIVE[0]).cap_kmh is None
