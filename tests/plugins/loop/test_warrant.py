"""A guard keeps its certificate until its runs speak against it, and then says so."""

from __future__ import annotations

import fcntl
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Source
from forewarn.monitors.evaluation.evidence import Rate
from forewarn.monitors.guarding.certificate import InvalidCertificate
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.plugins.loop import warrant
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.loop.loop import GuardedLoop
from forewarn.plugins.loop.replay import replay
from forewarn.plugins.loop.warrant import EVIDENCE, Simulated, Warrant
from tests.scenarios import warranted

SOURCE = Source("car", "driving", warranted.SIGNALS, 0.5)
REASON = "gentle: clean runs with an alarm"


def drive(loop: GuardedLoop, hard: bool, near: bool) -> list[Decision]:
    loop.begin(None)
    decisions = [loop.review(frame) for frame in warranted.frames(hard, near)]
    loop.close("over")
    return decisions


@pytest.fixture
def guard(tmp_path: Path) -> Path:
    return warranted.own_guard(tmp_path)


def counts(guard: Path) -> dict[str, tuple[int, int]]:
    told = Warrant(guard).told()["evidence"]
    return {name: (of["happened"], of["runs"]) for name, of in told.items()}


def test_each_run_counts_as_the_certificate_counts_them(guard: Path) -> None:
    loop = Guarding.load(guard).open(SOURCE)
    for hard, near in [(False, False), (False, True), (True, True), (True, False)]:
        drive(loop, hard, near)
    assert counts(guard) == {
        "gentle: clean runs with an alarm": (1, 2),
        "gentle: violating runs missed": (1, 2),
        "gentle: runs that break it": (2, 4),
        # The law itself alarms when it is broken, too late to be in time.
        "gentle: runs with an alarm": (3, 4),
    }


def test_a_simulated_run_counts_once_for_each_rate(guard: Path) -> None:
    first, second = list(counts(guard))[:2]
    evidence, run = Warrant(guard), Simulated("scenario", 7)
    for _ in range(2):
        evidence.count({first: True}, run)
        # As if the same seed were first run in shadow mode and then guarded.
        evidence.count({second: True}, run)
        evidence = Warrant(guard)
    evidence.count({first: True}, Simulated("scenario", 8))
    assert (counts(guard)[first], counts(guard)[second]) == ((2, 2), (1, 1))


def test_a_rate_above_the_guaranteed_one_revokes_for_good(guard: Path) -> None:
    loop = Guarding.load(guard).open(SOURCE)
    for number in range(60):
        drive(loop, hard=False, near=number % 2 == 0)
    reason = Warrant(guard).revoked()
    assert reason.startswith(f"{REASON}: ") and "guaranteed: at most 0.05" in reason
    for _ in range(20):
        last = drive(loop, hard=False, near=False)
    note = f"the certificate is revoked: {reason}"
    assert all(note in decision.notes for decision in last)
    # Another guard of the same folder, such as after a restart, knows it too.
    again = drive(Guarding.load(guard).open(SOURCE), hard=False, near=False)
    assert note in again[0].notes


def revoked(guard: Path) -> None:
    """Makes a guard whose certificate is revoked."""
    content = {
        "format": "forewarn.evidence/1",
        "certificate": Warrant(guard).certificate.digest,
        "rates": {n: r.as_dict() for n, r in Warrant(guard)._rates.items()},
        "revoked": "too many alarms",
    }
    (guard / EVIDENCE).write_text(json.dumps(content))


@pytest.mark.parametrize(("then", "kind"), [("alert", "alert"), ("fallback", "stop")])
def test_the_policy_says_what_a_revoked_guard_does(
    guard: Path, tmp_path: Path, then: str, kind: str
) -> None:
    guarding = Guarding.load(guard)
    (step,) = guarding.policy.rules["gentle"]
    policy = replace(guarding.policy, rules={"gentle": (Step("stop", step.threshold),)})
    policy = Policy.from_dict(policy.as_dict() | {"revoked": then}, "test")
    record = tmp_path / "run.jsonl"
    guarding = replace(guarding, policy=policy, record=record)
    held = drive(guarding.open(SOURCE), hard=False, near=True)
    assert held[-1].kind == "stop"
    record.unlink()
    revoked(guard)
    decisions = drive(guarding.open(SOURCE), hard=False, near=True)
    assert decisions[-1].kind == kind
    assert (decisions[0].kind == "stop") is (then == "fallback")
    header, *_, last = map(json.loads, record.read_text().splitlines())
    assert header["revoked"] == last["revoked"] == "too many alarms"
    assert replay(record) == (len(decisions), None)


def test_a_run_in_which_the_guard_stepped_in_tells_only_of_its_alarm(
    guard: Path,
) -> None:
    guarding = Guarding.load(guard)
    (step,) = guarding.policy.rules["gentle"]
    policy = replace(guarding.policy, rules={"gentle": (Step("stop", step.threshold),)})
    drive(replace(guarding, policy=policy).open(SOURCE), hard=False, near=True)
    assert counts(guard)[REASON] == (0, 0)
    assert counts(guard)["gentle: runs with an alarm"] == (1, 1)


def test_with_other_thresholds_there_is_no_certificate(guard: Path) -> None:
    guarding = Guarding.load(guard, Policy(rules={"gentle": (Step("alert", 0.9),)}))
    drive(guarding.open(SOURCE), hard=False, near=True)
    assert not (guard / EVIDENCE).exists()


def test_evidence_about_another_certificate_is_rejected(guard: Path) -> None:
    drive(Guarding.load(guard).open(SOURCE), hard=False, near=False)
    path = guard / EVIDENCE
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"certificate": "0" * 64}))
    with pytest.raises(InvalidCertificate, match="a different certificate"):
        Warrant(guard)


def test_of_evidence_only_what_is_new_is_replayed(
    guard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Warrant(guard), Warrant(guard)
    observed: list[bool] = []
    observe = Rate.observe

    def counted(rate: Rate, happened: bool) -> None:
        observed.append(happened)
        observe(rate, happened)

    for _ in range(20):
        theirs.count({REASON: False})
    assert not ours.revoked()
    monkeypatch.setattr(Rate, "observe", counted)
    theirs.count({REASON: True})
    assert not ours.revoked() and observed == [True, True]
    assert ours.told() == theirs.told() == Warrant(guard).told()
    (guard / EVIDENCE).unlink()
    theirs = Warrant(guard)
    theirs.count({REASON: True})
    assert ours.told() == theirs.told()


def test_evidence_that_cannot_be_read_for_a_moment_revokes_for_no_longer(
    guard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warranty = Warrant(guard)
    warranty.count({REASON: False})

    def no_file(warranty: Warrant) -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Warrant, "_load", no_file)
        assert "Too many open files" in warranty.revoked()
        warranty.count({REASON: False})
    assert not warranty.revoked() and not Warrant(guard).revoked()


def test_evidence_that_could_not_be_written_outlasts_that_of_another_process(
    guard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = Warrant(guard), Warrant(guard)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(warrant, "write_json", full)
        one.count({REASON: True})
    other.count({REASON: False})
    assert one.told()["evidence"][REASON]["happened"] == 1
    one.count({REASON: False})
    assert counts(guard)[REASON] == (1, 3)


def test_a_lock_that_another_process_holds_holds_up_no_run(
    guard: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warrant, "LOCK_S", 0.05)
    loop = Guarding.load(guard).open(SOURCE)
    with (guard / f".{EVIDENCE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        drive(loop, hard=False, near=False)
    assert not (guard / EVIDENCE).exists()
    drive(loop, hard=False, near=False)
    # What could not be written was kept in this process.
    assert counts(guard)[REASON] == (0, 2)


def test_a_lock_that_is_a_link_changes_no_file(guard: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (guard / f".{EVIDENCE}.lock").symlink_to(mine)
    drive(Guarding.load(guard).open(SOURCE), hard=False, near=False)
    assert mine.read_text() == "precious" and not (guard / EVIDENCE).exists()


ODD_RATES: dict[str, dict[str, object]] = {
    "a promise of its own": {"reference": {"promised": 0.9}},
    "training of its own": {"reference": {"happened": 9, "runs": 10}},
    "another level": {"level": 1e-300},
    "windows that take hours": {"windows": [[1_000_000, 1.0]] * 10},
    "more than there are": {"windows": [[250, 1.0], [250, 1.0]]},
    "no outcomes": {"outcomes": 5},
    "other outcomes": {"outcomes": "012"},
    "a number that is none": {"level": float("nan")},
}


@pytest.mark.parametrize("odd", ODD_RATES)
def test_evidence_by_other_rules_is_rejected(guard: Path, odd: str) -> None:
    revoked(guard)
    content = json.loads((guard / EVIDENCE).read_text())
    content["rates"][REASON] |= ODD_RATES[odd]
    (guard / EVIDENCE).write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=re.escape(EVIDENCE)):
        Warrant(guard)


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_evidence_that_is_damaged_in_a_run_ends_no_run(
    guard: Path, damage: bytes
) -> None:
    loop = Guarding.load(guard).open(SOURCE)
    drive(loop, hard=False, near=False)
    (guard / EVIDENCE).write_bytes(damage)
    first, *_ = drive(loop, hard=False, near=False)
    assert "the certificate is revoked: its evidence cannot be read" in first.notes[0]
    with pytest.raises(InvalidInput):
        Guarding.load(guard)


def test_evidence_that_speaks_against_it_revokes_whatever_else_it_says(
    guard: Path,
) -> None:
    content = json.loads(json.dumps({"outcomes": "1" * 60}))
    revoked(guard)
    file = json.loads((guard / EVIDENCE).read_text())
    file["rates"][REASON] |= content
    (guard / EVIDENCE).write_text(json.dumps(file | {"revoked": ""}))
    assert Warrant(guard).revoked().startswith(REASON)
