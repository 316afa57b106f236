"""Creates a guard with a certificate from runs of frames.

The runs are split into three parts. The first part is used to choose the predicates and
to learn the chain; the second, to calibrate its risks; the third, only for the
thresholds and the certificate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from forewarn import __version__
from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.certified import (
    Asked,
    Certified,
    Guarantee,
    Lack,
    Rate,
    alike,
    certify,
    over_groups,
)
from forewarn.monitors.evaluation.evidence import Ordinary
from forewarn.monitors.evaluation.figures import Promise, needed
from forewarn.monitors.evaluation.foretold import (
    Foretold,
    calibrate,
    climb_of,
    ordinary_of,
)
from forewarn.monitors.evaluation.warned import Climb
from forewarn.monitors.finding.choice import Chosen, choose_by_law, given
from forewarn.monitors.finding.corpus import FOLDS, Corpus
from forewarn.monitors.guarding.certificate import (
    BaseRate,
    Certificate,
    Clip,
    OverGroups,
    Wrong,
    counted,
)
from forewarn.monitors.guarding.policy import Policy, Step
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.calibration import Calibration
from forewarn.monitors.trust.hindsight import Judge, foretold_by
from forewarn.scenarios.training.train import HOLD_S, holds, learned
from forewarn.scenarios.warrant.runs import LoggedRun, PastCalls, deal, once
from forewarn.scenarios.warrant.shadow import clip

Shown = Callable[[Iterable[Any], str, int], Iterable[Any]]

PARTS = ("certificate", "calibration", "learning")
CALIBRATION = 0.15
"""The fraction of the runs that calibrates the risks."""


@dataclass(frozen=True, slots=True)
class Made:
    """The result of creating a guard with a certificate.

    Args:
        models: The models; empty if nothing was learned.
        policy: The policy with the thresholds; None if a rate cannot be guaranteed.
        certificate: The certificate; None if a rate cannot be guaranteed.
        lacks: The rates that cannot be guaranteed, and why.
        parts: The number of runs in each part.
        again: The number of runs that were left out as duplicates.
    """

    models: tuple[Model, ...]
    policy: Policy | None
    certificate: Certificate | None
    lacks: tuple[Lack, ...]
    parts: dict[str, int]
    again: int


def assumption(group: str | None) -> str:
    """Returns the assumption behind the guarantees."""
    each = f"each {group}'s runs" if group else "each run"
    return (
        "Future runs come from the same distribution as the runs of the "
        "certificate, and are independent of each other. "
        f"{each[0].upper()}{each[1:]} were used in only one part. Nothing is assumed "
        "about the model: the guarantees hold even if it is wrong."
    )


def make(
    past: Sequence[LoggedRun],
    laws: Sequence[Law],
    hand: Abstraction | None,
    asked: Asked,
    horizon_s: float,
    group: str | None = None,
    seed: int = 0,
    search: bool = True,
    progress: Shown = lambda items, *_: items,
) -> Made:
    """Chooses predicates, learns models, sets thresholds and certifies them.

    Args:
        past: The runs.
        laws: The laws; compound laws must be split into their parts.
        hand: A hand-written abstraction; None if there is none.
        asked: The maximum rates to guarantee.
        horizon_s: The prediction horizon of the risk, in seconds.
        group: The kind of group, such as `driver`; None if runs are not grouped.
        seed: The seed of the random split.
        search: Whether to search for predicates in addition to the hand-written ones.
        progress: Shows progress.
    """
    new, again = once([each.stored.digest for each in past])
    past = [past[number] for number in new]
    asked = replace(asked, laws=len(laws))
    aside = share_aside(len(past), asked)
    parts = deal([each.group for each in past], [aside, CALIBRATION], seed)
    use = dict(zip(PARTS, parts, strict=True))
    counts = {name: len(some) for name, some in use.items()}
    learning = [past[number] for number in use["learning"]]
    runs = [each.run for each in past]
    period_s = runs[0].header.period_s or 0.0
    if hand is not None and hand.period_s:
        period_s = hand.period_s
    lacks = too_few(laws, past, use, asked, period_s)
    if lacks:
        return Made((), None, None, tuple(lacks), counts, len(again))
    if hand is not None and not search:
        chosen = [Chosen(tuple(laws), given(hand))]
    else:
        corpus = Corpus(
            [each.run for each in learning], laws, runs[0].vocabulary, period_s,
            [each.group for each in learning],
        )  # fmt: skip
        chosen = choose_by_law(corpus, laws, hand, horizon_s, progress=progress)
    guards: list[Learned] = []
    curves: dict[str, Calibration] = {}
    for each in chosen:
        model = learned(
            [one.stored for one in learning], [one.run for one in learning],
            each.choice, each.laws, horizon_s,
        )  # fmt: skip
        guard = Learned.of(
            model, each.choice.abstraction, each.laws, horizon_s, period_s
        )
        guards.append(guard)
        for law, several in _told(guard, past, use["calibration"]).items():
            curves[law] = calibrate(several, horizon_s)
    policy = Policy(
        name="warranted",
        horizon_s=horizon_s,
        calibration={law: curve for law, curve in curves.items() if curve.points},
        hold_s=HOLD_S if holds(laws, runs, period_s) else horizon_s,
    )
    before = {name: _named(past, use[name]) for name in PARTS[1:]}
    last = use["certificate"]
    return certified_on(guards, policy, past, last, before, asked, group, len(again))


def _named(past: Sequence[LoggedRun], numbers: Sequence[int]) -> dict[str, str]:
    """Returns the digests of runs by name."""
    found: dict[str, str] = {}
    for number in numbers:
        name, digest = past[number].stored.name, past[number].stored.digest
        found[f"{name}, {digest}" if name in found else name] = digest
    return found


@dataclass(frozen=True, slots=True)
class Learned:
    """A learned model, ready to compute risks along runs.

    Args:
        model: The model.
        judge: Computes the model's risks along runs.
        signals: The signals that the model and its laws read.
    """

    model: Model
    judge: Judge
    signals: tuple[str, ...]

    @classmethod
    def of(
        cls,
        model: Model,
        abstraction: Abstraction,
        laws: Sequence[Law],
        horizon_s: float,
        period_s: float,
    ) -> Learned:
        """Prepares a model to compute the risks of its laws."""
        judge = Judge(model, abstraction, laws, [horizon_s], period_s)
        read = [signal for law in laws for signal in law.signals]
        return cls(model, judge, tuple(dict.fromkeys([*read, *abstraction.signals])))


def certified_on(
    guards: Sequence[Learned],
    policy: Policy,
    past: Sequence[LoggedRun],
    numbers: Sequence[int],
    before: dict[str, dict[str, str]],
    asked: Asked,
    group: str | None,
    again: int,
) -> Made:
    """Sets thresholds and certifies them, on runs that were used for nothing else.

    Args:
        guards: The models.
        policy: The policy without its thresholds.
        past: The runs.
        numbers: The indices of the runs for the certificate.
        before: The digests of the runs that were used for the models and the policy, by
            part.
        asked: The maximum rates to guarantee.
        group: The kind of group, such as `driver`; None if runs are not grouped.
        again: The number of runs that were left out as duplicates.
    """
    horizon_s = policy.horizon_s
    models = tuple(each.model for each in guards)
    parts = {"certificate": _named(past, numbers), **before}
    counts = counted(parts)
    climbs: dict[str, list[Climb]] = {}
    ordinary: dict[str, Ordinary] = {}
    certified: dict[str, Certified] = {}
    signals: dict[str, tuple[str, ...]] = {}
    for each in guards:
        for law, several in _told(each, past, numbers).items():
            curve = policy.calibration.get(law, Calibration())
            climbs[law] = [
                climb_of(one, horizon_s, one.run, False, curve) for one in several
            ]
            ordinary[law] = ordinary_of(several, horizon_s, curve)
            (reach,) = curve(_array(each.judge.reach[law][horizon_s]))
            certified[law] = certify(law, climbs[law], asked, float(reach))
            signals[law] = each.signals
    lacks = tuple(lack for found in certified.values() for lack in found.lacks)
    if lacks:
        return Made(models, None, None, lacks, counts, again)
    policies: dict[str, tuple[Step, ...]] = {}
    for law, found in certified.items():
        assert found.threshold is not None  # noqa: S101
        policies[law] = (Step("alert", found.threshold),)
    policy = replace(
        policy,
        rules=policies,
        promises={law: _promise(found, asked) for law, found in certified.items()},
        ordinary=ordinary,
    )
    guarantees = [g for found in certified.values() for g in found.guarantees]
    thresholds = {law: found.threshold for law, found in certified.items()}
    certificate = issue(
        climbs, thresholds, guarantees, past, parts, asked, group,
        assumption(group), horizon_s,
        lambda law, own, at_s: (at_s, clip(own, at_s, signals[law])),
    )  # fmt: skip
    return Made(models, policy, certificate, (), counts, again)


Run = TypeVar("Run", LoggedRun, PastCalls)


def issue(
    climbs: Mapping[str, Sequence[Climb]],
    thresholds: Mapping[str, float | None],
    guarantees: Sequence[Guarantee],
    past: Sequence[Run],
    parts: dict[str, dict[str, str]],
    asked: Asked,
    group: str | None,
    assumption: str,
    horizon_s: float | None,
    shown: Callable[[str, Run, float], tuple[float, Clip]],
) -> Certificate:
    """Returns the certificate of a guard that keeps its guarantees.

    Args:
        climbs: For each law, the risks in the runs of the certificate.
        thresholds: The threshold of each law; None for a law over calls, whose alarms
            have the risk 1.
        guarantees: The rates that are guaranteed.
        past: The runs.
        parts: The digests of the runs by name, by part.
        asked: The maximum rates to guarantee.
        group: The kind of group, such as `driver`; None if runs are not grouped.
        assumption: The assumption behind the guarantees.
        horizon_s: The prediction horizon in seconds; None for laws over calls.
        shown: Returns the time and the clip of a run in which the guard was wrong.
    """
    at = {law: 1.0 if each is None else each for law, each in thresholds.items()}
    rates, shadow = list[BaseRate](), list[Wrong]()
    for law, several in climbs.items():
        violating = sum(climb.broken is not None for climb in several)
        alarmed = sum(climb.top >= at[law] for climb in several)
        rates.append(
            BaseRate(law=law, violating=violating, alarmed=alarmed, runs=len(several))
        )
        for climb in several:
            if (when_s := climb.wrong_s(at[law])) is None:
                continue
            own, stopped = past[climb.seed], climb.broken is None
            at_s, seen = shown(law, own, when_s)
            shadow.append(
                Wrong(
                    run=own.name, group=own.group, law=law, at_s=at_s, clip=seen,
                    what="wrongly stopped" if stopped else "wrongly let pass",
                )
            )  # fmt: skip
    return Certificate(
        format="forewarn.warrant/1",
        made_by=f"forewarn {__version__}",
        laws=dict(thresholds),
        over="calls" if horizon_s is None else "frames",
        horizon_s=horizon_s,
        confidence=asked.confidence,
        guarantees=list(guarantees),
        assumption=assumption,
        base_rates=rates,
        group=group or "",
        over_groups=[
            _over(each, climbs[each.law], at[each.law], past, asked)
            for each in guarantees
            if group is not None
        ],
        runs=parts,
        guard={},
        shadow=shadow,
    )


def share_aside(runs: int, asked: Asked) -> float:
    """Returns the fraction of the runs to use for the thresholds and the certificate.

    The fraction ranges from a third for many runs to a half for few runs.
    """
    fewest = needed(asked.false_alarms, asked.delta) or runs
    return min(0.5, max(1 / 3, 2.0 * fewest / max(runs, 1)))


def too_few(
    laws: Sequence[Law],
    past: Sequence[LoggedRun],
    use: dict[str, list[int]],
    asked: Asked,
    period_s: float,
) -> list[Lack]:
    """Returns the rates that cannot be guaranteed with so few runs; called before
    learning.
    """
    found: list[Lack] = []
    runs = [each.run for each in past]
    broken = Corpus(runs, laws, runs[0].vocabulary, period_s).broken_runs()
    aside = len(use["certificate"]) / len(past)
    for law in laws:
        is_broken = broken[law.name]
        clean = sum(not is_broken[n] for n in use["certificate"])
        violating = len(use["certificate"]) - clean
        wanted: tuple[tuple[Rate, int, float | None], ...] = (
            ("false_alarms", clean, asked.false_alarms),
            ("missed", violating, asked.missed),
        )
        for rate, there, most in wanted:
            if most is None:
                continue
            fewest = needed(most, asked.delta)
            if fewest is not None and there < fewest:
                kind = "clean" if rate == "false_alarms" else "violating"
                more = -(-(fewest - there) // aside)
                why = (
                    f"{there} {kind} runs are left for the certificate, but at "
                    f"least {fewest} are needed to guarantee a rate of {most:g}"
                )
                found.append(Lack(law.name, rate, there, int(more), why))
        taught = sum(is_broken[n] for n in use["learning"])
        if taught < FOLDS and not any(lack.law == law.name for lack in found):
            share = len(use["learning"]) / len(past)
            more = -(-(FOLDS - taught) // max(share, 1e-9))
            why = (
                f"{taught} violating runs are left to learn from, but at least "
                f"{FOLDS} are needed"
            )
            found.append(Lack(law.name, "missed", taught, int(more), why))
    return found


def _array(value: float) -> Any:
    import numpy as np

    return np.array([value])


def _told(
    guard: Learned, past: Sequence[LoggedRun], numbers: Sequence[int]
) -> dict[str, list[Foretold]]:
    return foretold_by([guard.judge], ((n, past[n].run) for n in numbers))


def _promise(found: Certified, asked: Asked) -> Promise:
    """Converts the guarantees to the form that policies store."""
    by_rate = {each.rate: each for each in found.guarantees}
    clean = by_rate["false_alarms"]
    missed = by_rate.get("missed")
    return Promise(
        false_alarms=clean.most, missed=missed.most if missed else None,
        confidence=asked.confidence, clean=clean.runs, alarmed=clean.failures,
        violating=missed.runs if missed else 0,
        undetected=missed.failures if missed else 0,
    )  # fmt: skip


def _over(
    guarantee: Guarantee,
    climbs: Sequence[Climb],
    at: float,
    past: Sequence[Run],
    asked: Asked,
) -> OverGroups:
    """Bounds a rate for a new group, from the groups of the certificate's runs."""
    missed = guarantee.rate == "missed"
    by_group: dict[str, Counter[bool]] = {}
    for climb in climbs:
        if (climb.broken is not None) == missed:
            failed = climb.wrong_s(at) is not None
            by_group.setdefault(past[climb.seed].group, Counter())[failed] += 1
    pairs = [(of[True], of.total()) for of in by_group.values()]
    mean, bound = over_groups(pairs, asked.delta)
    return OverGroups(
        law=guarantee.law, rate=guarantee.rate, groups=len(pairs), mean=mean,
        bound=bound, alike=alike(pairs),
    )  # fmt: skip


def check_laws(laws: Sequence[Law], past: Sequence[LoggedRun]) -> None:
    """Raises an error if a law needs a signal that a run does not have."""
    for each in past:
        header = each.run.header
        for law in laws:
            lacking = [name for name in law.signals if not header.can_know(name)]
            if lacking:
                raise InvalidInput(
                    f"the run has no signal {lacking[0]}, which the law "
                    f"{law.name} uses",
                    source=str(each.stored.path),
                    mend=(
                        "leave the run out, or choose a law that uses only signals of "
                        "the run"
                    ),
                )
