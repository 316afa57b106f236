"""Tests whether a guard's certificate is still valid, using every run as evidence.

The evidence is stored next to the guard and accumulates run by run. Once there is
enough evidence against the certificate, it is permanently revoked, and every later run
reports the revocation.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from forewarn.abstractions.errors import InvalidInput, clean, said
from forewarn.abstractions.files import read_json, write_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.evaluation.evidence import LEVEL, Rate, Reference
from forewarn.monitors.guarding.certificate import (
    MODEL,
    Certificate,
    InvalidCertificate,
    is_warranted,
    load_certificate,
)
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.listening import Listener, Run, interferes
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.guarding.watch import Watch
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.plugins.loop.alerts import tell

EVIDENCE = "evidence.json"
UNREAD = "its evidence cannot be read: "
LOCK_S = 5.0
"""The maximum time in seconds to wait while another process writes evidence."""

Outcome = Mapping[str, bool]
"""Whether a run counts against each rate that it is relevant to, by the rate's name."""


class Simulated(NamedTuple):
    """A run in an embedded world: the digest of scenario and pilot, and the seed."""

    drawn: str
    seed: int


class _EvidenceFile(Strict):
    format: Literal["forewarn.evidence/1"]
    certificate: str
    rates: dict[str, dict[str, Any]]
    revoked: str
    seeds: dict[str, list[int]] = {}


class Warrant:
    """A certificate and the evidence from the guard's runs, shared between processes.

    Args:
        folder: The folder of the certified guard.
    """

    def __init__(self, folder: Path) -> None:
        self.certificate: Certificate = load_certificate(folder)
        self.folder, self._path = folder, folder / EVIDENCE
        self._read: tuple[int, int] | None = None
        self._rates = fresh(self.certificate)
        self._revoked = ""
        self._unwritten: list[tuple[Outcome, Simulated | None]] = []
        self._seeds: dict[str, list[int]] = {}
        self._load()

    @classmethod
    def beside(cls, model: Path) -> Warrant | None:
        """Returns the certificate of the guard with this model file, if any."""
        folder = model.parent
        if model.name != MODEL or not is_warranted(folder):
            return None
        return cls(folder)

    def revoked(self) -> str:
        """Returns the reason why the certificate was revoked; empty if it was not."""
        try:
            self._load()
        except OSError as error:  # the error may be temporary
            return self._revoked or UNREAD + said(error)
        except InvalidInput as error:
            self._revoke(UNREAD + said(error))
        return self._revoked

    def told(self) -> dict[str, Any]:
        """Returns the tested rates and the evidence on each, as JSON."""
        return {"revoked": self.revoked() or None, "evidence": told_of(self._rates)}

    def count(self, outcome: Outcome, simulated: Simulated | None = None) -> None:
        """Adds a run to the evidence; if writing fails, retries with the next run.

        Args:
            outcome: The outcome of the run.
            simulated: Identifies a run that would be the same if it were repeated, so
                that it counts only once.
        """
        counted = False
        try:
            with self._alone():
                self._load()
                self._observe(outcome, simulated)
                counted = True
                self._write()
                self._unwritten.clear()
        except (OSError, InvalidInput) as error:
            told = "the evidence could not be written: %s"
            tell(logging.WARNING, told, error)
            if not counted:
                self._observe(outcome, simulated)
            self._unwritten.append((outcome, simulated))

    def _observe(self, outcome: Outcome, simulated: Simulated | None) -> None:
        for name, rate in self._rates.items():
            if name in outcome and self._is_new(name, simulated):
                rate.observe(outcome[name])
        self._check()

    def _is_new(self, name: str, simulated: Simulated | None) -> bool:
        """Whether a run does not count towards a rate yet; from now on it does."""
        if simulated is None:
            return True
        seeds = self._seeds.setdefault(f"{name}, {simulated.drawn}", [])
        if simulated.seed in seeds:
            return False
        seeds.append(simulated.seed)
        return True

    def _check(self) -> None:
        for why in refuted(self._rates):
            self._revoke(why)

    def _revoke(self, why: str) -> None:
        if not self._revoked:
            self._revoked = why
            told = "the certificate is revoked: %s"
            tell(logging.WARNING, told, clean(why))

    def _load(self) -> None:
        try:
            facts = self._path.stat()
        except FileNotFoundError:
            return
        stamp = facts.st_mtime_ns, facts.st_size
        if stamp == self._read:
            return
        source = str(self._path)
        file = validated(
            _EvidenceFile, read_json(self._path), source, InvalidCertificate
        )
        if file.certificate != self.certificate.digest:
            raise InvalidCertificate(
                "the evidence belongs to a different certificate",
                source=source,
                mend="delete the file to start collecting evidence again",
            )
        due = {name: rate.as_dict() for name, rate in fresh(self.certificate).items()}
        # The file contributes only the counts; the rates are those of the certificate.
        if {n: of | {"outcomes": ""} for n, of in file.rates.items()} != due:
            raise InvalidCertificate(
                "the rates of the evidence differ from those of the certificate",
                source=source,
            )
        self._rates = {
            name: Rate.from_dict(content, f"{source}: {name}", self._rates[name])
            for name, content in file.rates.items()
        }
        self._revoked, self._read, self._seeds = file.revoked, stamp, file.seeds
        for outcome, simulated in self._unwritten:
            self._observe(outcome, simulated)
        self._check()

    def _write(self) -> None:
        content = {
            "format": "forewarn.evidence/1",
            "certificate": self.certificate.digest,
            "rates": {name: rate.as_dict() for name, rate in self._rates.items()},
            "revoked": self._revoked,
            "seeds": self._seeds,
        }
        write_json(self._path, content)
        facts = self._path.stat()
        self._read = facts.st_mtime_ns, facts.st_size

    @contextmanager
    def _alone(self) -> Iterator[None]:
        path = self.folder / f".{EVIDENCE}.lock"
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            until_s = time.monotonic() + LOCK_S
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until_s:
                        raise
                time.sleep(0.01)
            yield
        finally:
            os.close(lock)


def told_of(rates: Mapping[str, Rate]) -> dict[str, Any]:
    """Returns the tested rates and the evidence on each, as JSON."""
    return {
        name: {
            "runs": rate.runs,
            "happened": rate.happened,
            "expected": rate.reference.words,
            "evidence": rate.evidence,
            "enough": 1.0 / rate.level,
        }
        for name, rate in rates.items()
    }


def refuted(rates: Mapping[str, Rate]) -> Iterator[str]:
    """Yields a reason for each rate with enough evidence against it."""
    for name, rate in rates.items():
        if rate.exceeded:
            so_many = f"{rate.happened} of {rate.runs} runs"
            yield f"{name}: {so_many} ({rate.reference.words})"


WINDOWS = {250: 0.25, 500: 0.75}
"""The bets against a guaranteed rate.

A key is the number of runs within which a bet aims to detect twice the guaranteed rate;
its value is the fraction of the stake that is bet.
"""

SHARES = {"kept": 4, "false_alarms": 4, "missed": 3, "alarmed": 2, "violating": 1}
"""The weights by which kinds of rates share the probability of a false revocation."""

KEPT = "runs that break a law with the guard acting"
"""The name of the rate that a guarantee about interventions limits."""


def fresh(certificate: Certificate, level: float = LEVEL) -> dict[str, Rate]:
    """Returns the rates to test, before any evidence.

    Each guarantee has one rate. Each law has up to two further rates, which test
    whether the distribution of runs has changed.

    Args:
        certificate: The certificate with the guarantees.
        level: The probability, over all rates, of ever revoking the certificate
            although nothing has changed.
    """
    promised: dict[tuple[str, str], Reference] = {}
    alike: dict[tuple[str, str], Reference] = {}
    for each in certificate.guarantees:
        if each.law in judged(certificate):
            promised[each.rate, each.law] = Reference(each.most)
    for rate in certificate.base_rates:
        if certificate.over == "frames":
            known = Reference(None, rate.violating, rate.runs)
            alike["violating", rate.law] = known
        alike["alarmed", rate.law] = Reference(None, rate.alarmed, rate.runs)
    kept = certificate.kept
    if kept is not None and kept.violating < 1.0:
        promised["kept", ""] = Reference(kept.violating)
    each_share = level / sum(SHARES[what] for what, _ in (*promised, *alike))
    found = {
        named(what, law): Rate(of, each_share * SHARES[what], WINDOWS)
        for (what, law), of in promised.items()
    }
    return found | {
        named(what, law): Rate(of, each_share * SHARES[what])
        for (what, law), of in alike.items()
    }


def judged(certificate: Certificate) -> set[str]:
    """Returns the laws whose violations can be found without labels from people.

    Deciding whether calls were unsafe requires labels from people. If no labelled run
    violated a law, all runs count as clean.
    """
    over_frames = certificate.over == "frames"
    return {r.law for r in certificate.base_rates if over_frames or not r.violating}


def named(what: str, law: str) -> str:
    """Returns the name of a rate, given its kind and its law."""
    if what == "kept":
        return KEPT  # it covers all laws
    words = {
        "false_alarms": "clean runs with an alarm",
        "missed": "violating runs missed",
        "violating": "runs that break it",
        "alarmed": "runs with an alarm",
    }
    return f"{law}: {words[what]}"


class Witness(Listener):
    """Evaluates each run in the same way as the certificate's runs, and counts it.

    If the guard intervened, the outcome without the intervention is unknown, so only
    the alarm counts. A guarantee about interventions is tested with every run of the
    same scenario and pilot in which the guard may intervene.

    Args:
        warrant: The certificate.
        policy: The guard's policy.
        drawn: The digest of the run's scenario and pilot; empty if it is unknown.
    """

    def __init__(self, warrant: Warrant, policy: Policy, drawn: str = "") -> None:
        self._warrant, self._policy, self._drawn = warrant, policy, drawn
        certificate = warrant.certificate
        kept = certificate.kept
        self._tests_kept = (
            kept is not None and not policy.shadow and drawn in ("", kept.drawn)
        )
        self._levels = certificate.laws
        self._guaranteed = {(g.law, g.rate) for g in certificate.guarantees}
        self._laws: list[FollowedLaw] = []

    def began(self, run: Run) -> None:
        """Starts evaluating a run."""
        watch, self._laws = run.watch, []
        period_s = run.source.period_s
        self._simulated: Simulated | None = None
        if run.source.embedded and self._drawn and run.seed is not None:
            self._simulated = Simulated(self._drawn, run.seed)
        over_frames = self._warrant.certificate.over == "frames"
        for law in watch.laws if watch is not None and over_frames else ():
            if law.name in self._levels:
                every_s = period_s or (watch.period_s if watch else 0.0)
                self._laws.append(FollowedLaw(law.law, every_s))
        self._alarms: dict[str, float] = {}
        self._acted = self._failed = False
        self._frames = 0

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Evaluates a frame that the guard has reviewed."""
        self._frames += 1
        self._acted |= interferes(decision, self._policy)
        for law in watch.laws:
            at = self._levels.get(law.name)
            if at is None:
                alarm = decision.law == law.name and decision.kind != "proceed"
            else:
                # The comparison is negated so that NaN counts as an alarm.
                alarm = not law.judged < at
            if alarm and law.name in self._levels:
                self._alarms.setdefault(law.name, frame.time_s)
        for followed in self._laws:
            try:
                followed.frame(frame)
            except InvalidInput:
                self._failed = (
                    True  # the guard used its fallback, so the run is not evidence
                )

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Adds the run to the evidence unless it failed."""
        if not self._frames or facts.get("error") is not None:
            return
        outcome = {} if self._failed else self._of_laws()
        if self._tests_kept and ("violations" in facts or not self._failed):
            seen = any(followed.monitor.violations for followed in self._laws)
            # A scenario's run reports its violations, also of laws without a model.
            outcome[KEPT] = bool(facts.get("violations", seen))
        if outcome:
            self._warrant.count(outcome, self._simulated)

    def _of_laws(self) -> dict[str, bool]:
        outcome: dict[str, bool] = {}
        if self._warrant.certificate.over == "calls":
            clean = judged(self._warrant.certificate)
            for law in self._levels:
                alarmed = law in self._alarms
                outcome[named("alarmed", law)] = alarmed
                if law in clean:
                    outcome[named("false_alarms", law)] = alarmed
        for followed in self._laws:
            outcome |= self._of(followed)
        return outcome

    def _of(self, followed: FollowedLaw) -> Outcome:
        law, alarm_s = followed.name, self._alarms.get(followed.name)
        found = {named("alarmed", law): alarm_s is not None}
        if self._acted:
            return found
        broken = followed.finish()
        found[named("violating", law)] = broken is not None
        if broken is None:
            if (law, "false_alarms") in self._guaranteed:
                found[named("false_alarms", law)] = alarm_s is not None
        elif (law, "missed") in self._guaranteed:
            _, since_s = broken
            missed = alarm_s is None or alarm_s >= since_s
            found[named("missed", law)] = missed
        return found
