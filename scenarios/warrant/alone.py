"""Certifies laws over agents' calls, which need no learned chain.

Such a law has no threshold, and nothing is learned, so all runs are used for the
certificate. An alarm is a past call that the guard withholds in a replay. Runs that
people labelled as unsafe must not be missed; without labels, every run counts as clean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forewarn import __version__
from forewarn.abstractions.readers.calls import CallRun
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.certified import (
    Asked,
    Guarantee,
    Lack,
    Rate,
    alike,
    judge,
    over_groups,
)
from forewarn.monitors.guarding.certificate import (
    BaseRate,
    Certificate,
    Clip,
    Guaranteed,
    OverGroups,
    Wrong,
)
from forewarn.monitors.guarding.policy import Policy
from forewarn.scenarios.warrant.making import Made
from forewarn.scenarios.warrant.runs import Label, once

AROUND = 3
"""The number of calls to show before and after the decisive one."""

SHOWN_CHARACTERS = 200

ASSUMPTION = (
    "Future runs come from the same distribution as these runs, and are "
    "independent of each other. The law was written without these runs, and "
    "nothing was learned, so all of them count."
)
UNLABELLED = " No run is labelled as unsafe, so each counts as clean."


@dataclass(frozen=True, slots=True)
class PastCalls:
    """A run of calls with its group and its label.

    Args:
        run: The calls of the run.
        group: The run's group.
        label: The label `safe` or `unsafe`; None if people did not label the run.
    """

    run: CallRun
    group: str
    label: Label | None = None

    @property
    def unsafe(self) -> bool:
        """Whether people labelled the run as unsafe."""
        return self.label == "unsafe"


Withheld = Mapping[str, Sequence[int | None]]
"""By law: for each run, the index of the first call that the law withholds; None if
there is none.
"""


def make_alone(
    past: Sequence[PastCalls],
    withheld: Withheld,
    models: Sequence[Model],
    policy: Policy,
    asked: Asked,
    group: str | None = None,
) -> Made:
    """Certifies laws over calls.

    Args:
        past: The runs.
        withheld: The first call of each run that each law withholds.
        models: The models that a guard with these laws loads.
        policy: The policy for calls that would break a law.
        asked: The maximum rates to guarantee.
        group: The kind of group, such as `driver`; None if runs are not grouped.
    """
    new, again = once([each.run.digest for each in past])
    labelled = any(past[number].unsafe for number in new)
    if not labelled:
        asked = replace(asked, missed=None)
    asked = replace(asked, laws=len(withheld))
    guarantees: list[Guarantee] = []
    lacks: list[Lack] = []
    groups: list[OverGroups] = []
    rates: list[BaseRate] = []
    shadow: list[Wrong] = []
    for law, at in withheld.items():
        failed = {n: _wrong(past[n], at[n]) for n in new}
        unsafe = sum(past[n].unsafe for n in new)
        alarmed = sum(at[n] is not None for n in new)
        rates.append(
            BaseRate(law=law, violating=unsafe, alarmed=alarmed, runs=len(new))
        )
        wanted: list[tuple[Rate, float]] = [("false_alarms", asked.false_alarms)]
        if asked.missed is not None:
            wanted.append(("missed", asked.missed))
        for rate, most in wanted:
            some = [n for n in new if past[n].unsafe == (rate == "missed")]
            failures = sum(failed[n] for n in some)
            found = judge(law, rate, failures, len(some), most, asked.delta)
            if isinstance(found, Lack):
                lacks.append(found)
                continue
            guarantees.append(found)
            if group is not None:
                groups.append(_over(law, rate, some, failed, past, asked))
        shadow += (_shadow(law, past[n], at[n]) for n in new if failed[n])
    parts = {"certificate": len(new)}
    if lacks:
        return Made((), None, None, tuple(lacks), {}, parts, len(again))
    certificate = Certificate(
        format="forewarn.warrant/1",
        made_by=f"forewarn {__version__}",
        laws=dict.fromkeys(withheld),
        over="calls",
        horizon_s=None,
        confidence=asked.confidence,
        guarantees=[Guaranteed.of(each) for each in guarantees],
        assumption=ASSUMPTION + ("" if labelled else UNLABELLED),
        base_rates=rates,
        group=group or "",
        over_groups=groups,
        runs={"certificate": {past[n].run.name: past[n].run.digest for n in new}},
        guard={},
        shadow=shadow,
    )
    return Made(tuple(models), policy, certificate, (), {}, parts, len(again))


def _wrong(past: PastCalls, at: int | None) -> bool:
    return (at is None) == past.unsafe


def _over(
    law: str,
    rate: Rate,
    some: Sequence[int],
    failed: Mapping[int, bool],
    past: Sequence[PastCalls],
    asked: Asked,
) -> OverGroups:
    by_group: dict[str, Counter[bool]] = {}
    for number in some:
        by_group.setdefault(past[number].group, Counter())[failed[number]] += 1
    pairs = [(of[True], of.total()) for of in by_group.values()]
    mean, bound = over_groups(pairs, asked.delta)
    return OverGroups(
        law=law, rate=rate, groups=len(pairs), mean=mean, bound=bound,
        alike=alike(pairs),
    )  # fmt: skip


def _shadow(law: str, past: PastCalls, at: int | None) -> Wrong:
    calls = past.run.calls
    when = len(calls) - 1 if at is None else at
    near = range(max(0, when - AROUND), min(len(calls), when + AROUND + 1))
    return Wrong(
        run=past.run.name, group=past.group, law=law, at_s=float(when),
        what="wrongly let pass" if past.unsafe else "wrongly stopped",
        clip=Clip(
            times_s=[float(number) for number in near],
            signals={
                "tool": [calls[n].tool for n in near],
                "failed": [calls[n].failed for n in near],
                "arguments": [_short(calls[n].arguments) for n in near],
            },
        ),
    )  # fmt: skip


def _short(arguments: Mapping[str, object]) -> str:
    text = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
