"""A guarded loop counts what it saw while nobody stepped in, and keeps it in a file."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.fleet.files import read_tallies
from forewarn.monitors.fleet.tallies import Counted, InvalidTally, Subject
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.monitors.guarding.guard import Guard
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.guarding.watch import load_watch
from forewarn.plugins.loop import tallies
from forewarn.plugins.loop.loop import EpisodeClock, GuardedLoop
from forewarn.plugins.loop.tallies import TallyFile

ABSTRACTION = from_expressions(
    ("speed > 60", "speed > 50"), load_vocabulary("driving"), period_s=0.1
)
LAW = "always speed <= 60"
SLOW, FAST, OVER = "00", "01", "11"
SPEEDS = {SLOW: 40.0, FAST: 55.0, OVER: 65.0}


def model(law: str = LAW) -> Model:
    tally = Tally()
    tally.add_sequence([SLOW] * 50 + [FAST, OVER, FAST, SLOW] * 3)
    return learn(
        tally, Support("observed"), Fraction(0), "absorb",
        abstraction=ABSTRACTION.as_dict(), period_s=0.1, laws=(law,),
    )  # fmt: skip


class Obeying:
    """Does what it is told."""

    can: frozenset[Kind] = frozenset({"proceed", "alert", "stop"})

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        return None if decision.kind == "stop" else proposal

    def fallback(self, frame: Frame | None = None) -> Action | None:
        return None

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        return None


class Driven:
    """A loop that is shown one state after the other."""

    def __init__(self, file: TallyFile, threshold: float, shadow: bool = False) -> None:
        policy = Policy(
            rules={"*": (Step("stop", threshold),)}, horizon_s=1.0, shadow=shadow
        )
        clock = EpisodeClock()
        guard = Guard(load_watch(model(), horizon_s=1.0), policy, clock=clock)
        self.loop = GuardedLoop(guard, clock=clock, tally=file)
        self.begin()

    def begin(self) -> None:
        self.loop.begin(Obeying())
        self._step = 0

    def show(self, *states: str, skipped: int = 0) -> None:
        self._step += skipped
        for name in states:
            time_s = round(self._step * 0.1, 6)
            frame = Frame(time_s, self._step, {"speed": SPEEDS[name]})
            self.loop.decide(frame, Action("control"))
            self._step += 1


def counted(path: Path) -> Tally:
    return read_tallies(path)[0].tally


def sequences(*several: list[str]) -> Tally:
    tally = Tally()
    for states in several:
        tally.add_sequence(states)
    return tally


def test_episodes_are_counted_as_their_traces_would_be(tmp_path: Path) -> None:
    path = tmp_path / "car.tally.json.gz"
    driven = Driven(TallyFile(path, [model()]), 0.9, shadow=True)
    driven.show(SLOW, SLOW, FAST, OVER, OVER)
    driven.begin()
    driven.show(SLOW, FAST)
    driven.loop.close("the drive was over")
    expected = sequences([SLOW, SLOW, FAST, OVER, OVER], [SLOW, FAST])
    assert counted(path) == expected
    assert path.stat().st_size < 1_000


def test_nothing_after_an_intervention_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "car.tally.json"
    driven = Driven(TallyFile(path, [model()]), 0.9)
    driven.show(SLOW, FAST, OVER, SLOW, SLOW, SLOW)
    driven.begin()
    driven.show(SLOW, SLOW)
    driven.loop.close("the drive was over")
    expected = sequences([SLOW, FAST, OVER], [SLOW, SLOW])
    del expected.ends[OVER]
    assert counted(path) == expected
    (law,) = driven.loop.guard.watch.laws
    (kept,) = read_tallies(path)
    assert kept.stopped_by == {law.name: 1}
    assert kept.after_stops == {"0.8": (1, 0)}


def test_outcomes_after_a_stop_are_counted_by_the_band_of_its_risk(
    tmp_path: Path,
) -> None:
    path = tmp_path / "car.tally.json"
    driven = Driven(TallyFile(path, [model()]), 0.3)
    for states in ((SLOW, FAST, OVER, OVER), (SLOW, FAST, SLOW)):
        driven.begin()
        driven.show(*states)
    driven.loop.close("the drive was over")
    assert read_tallies(path)[0].after_stops == {"0.4": (2, 1)}


def test_what_follows_an_intervention_that_is_not_enforced_is_also_counted_apart(
    tmp_path: Path,
) -> None:
    path = tmp_path / "car.tally.json"
    driven = Driven(TallyFile(path, [model()]), 0.3, shadow=True)
    driven.show(SLOW, FAST, OVER, OVER)
    driven.begin()
    driven.show(SLOW, SLOW)
    driven.loop.close("the drive was over")
    (kept,) = read_tallies(path)
    assert kept.tally == sequences([SLOW, FAST, OVER, OVER], [SLOW, SLOW])
    (law,) = driven.loop.guard.watch.laws
    assert kept.let_pass == {law.name: 1} and not kept.stopped_by
    passed = kept.passed
    assert {s: row for s, row in passed.seen.items() if row} == {
        FAST: {OVER: 1},
        OVER: {OVER: 1},
    }
    assert passed.starts == {FAST: 1} and passed.ends == {OVER: 1}


def test_an_episode_that_broke_off_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "car.tally.json"
    driven = Driven(TallyFile(path, [model()]), 1.0, shadow=True)
    driven.show(SLOW, FAST)
    with pytest.raises(RuntimeError), driven.loop:
        raise RuntimeError("the world is gone")
    assert counted(path).ends == {}
    assert counted(path).seen[SLOW] == {FAST: 1}


def test_a_gap_is_no_step(tmp_path: Path) -> None:
    path = tmp_path / "car.tally.json"
    driven = Driven(TallyFile(path, [model()]), 1.0, shadow=True)
    driven.show(SLOW, FAST)
    driven.show(SLOW, SLOW, skipped=2)
    driven.loop.close("the drive was over")
    seen = counted(path).seen
    assert seen[SLOW] == {FAST: 1, SLOW: 1}
    assert seen[FAST] == {}


def test_a_halt_is_an_intervention(tmp_path: Path) -> None:
    path, halted = tmp_path / "car.tally.json", []
    driven = Driven(TallyFile(path, [model()]), 1.0, shadow=True)
    driven.show(SLOW, FAST)
    driven.loop._halting(lambda: halted.append(1))()
    driven.show(SLOW, SLOW)
    driven.loop.close("the drive was over")
    assert halted and counted(path).frames == 2 and not counted(path).ends


def test_what_is_taken_away_is_not_counted_again(tmp_path: Path) -> None:
    path = tmp_path / "car.tally.json"
    driven = Driven(TallyFile(path, [model()]), 1.0, shadow=True)
    driven.show(SLOW, FAST)
    driven.begin()
    taken = path.rename(tmp_path / "sent.tally.json")
    driven.show(FAST, FAST)
    driven.loop.close("the drive was over")
    assert counted(taken) == sequences([SLOW, FAST])
    assert counted(path) == sequences([FAST, FAST])
    assert read_tallies(taken)[0].id != read_tallies(path)[0].id


def test_a_file_that_is_there_is_continued(tmp_path: Path) -> None:
    path = tmp_path / "car.tally.json"
    for _ in range(2):
        driven = Driven(TallyFile(path, [model()]), 1.0, shadow=True)
        driven.show(SLOW, FAST)
        driven.loop.close("the drive was over")
    assert counted(path) == sequences([SLOW, FAST], [SLOW, FAST])


def test_an_episode_that_goes_on_is_written_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tallies, "EVERY", 3)
    path = tmp_path / "car.tally.json"
    driven = Driven(TallyFile(path, [model()]), 1.0, shadow=True)
    states = [SLOW, FAST, SLOW, FAST]
    driven.show(*states)
    assert counted(path).frames == 3
    driven.loop.close("the drive was over")
    assert counted(path) == sequences(states)


def test_the_file_of_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "car.tally.json"
    driven = Driven(TallyFile(path, [model()]), 1.0, shadow=True)
    driven.show(SLOW, FAST)
    driven.loop.close("the drive was over")
    with pytest.raises(InvalidTally, match="these differ: laws"):
        TallyFile(path, [model("always speed <= 50")])


def test_what_cannot_be_written_waits(tmp_path: Path) -> None:
    path = tmp_path / "car.tally.json"
    file = TallyFile(path, [model()])
    path.mkdir()
    subject = Subject.of(model())
    file.add({subject: Counted(sequences([SLOW, FAST]))})
    path.rmdir()
    file.add({subject: Counted(sequences([SLOW, SLOW]))})
    assert counted(path) == sequences([SLOW, FAST], [SLOW, SLOW])
