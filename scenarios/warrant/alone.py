"""Certifies laws over agents' calls, which need no learned chain.

Such a law has no threshold, and nothing is learned, so all runs are used for the
certificate. An alarm is a past call that the guard withholds in a replay. Runs that
people labelled as unsafe must not be missed; without labels, every run counts as clean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.certified import Asked, certified_at
from forewarn.monitors.evaluation.warned import Broken, Climb
from forewarn.monitors.guarding.policy import Policy
from forewarn.scenarios.warrant.making import Made, issue
from forewarn.scenarios.warrant.runs import PastCalls, once
from forewarn.scenarios.warrant.shadow import clip_of_calls

ASSUMPTION = (
    "Future runs come from the same distribution as these runs, and are "
    "independent of each other. The law was written without these runs, and "
    "nothing was learned, so all of them count."
)
UNLABELLED = " No run is labelled as unsafe, so each counts as clean."


Withheld = Mapping[str, Sequence[int | None]]
"""For each law and run, the index of the first call that the law withholds; None if
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
    labelled = any(past[number].label == "unsafe" for number in new)
    if not labelled:
        asked = replace(asked, missed=None)
    asked = replace(asked, laws=len(withheld))
    climbs = {
        law: [_climb(law, number, past[number], at[number]) for number in new]
        for law, at in withheld.items()
    }
    found = [certified_at(*each, asked, 1.0) for each in climbs.items()]
    parts = {"certificate": len(new)}
    if lacks := tuple(lack for each in found for lack in each.lacks):
        return Made((), None, None, lacks, parts, len(again))
    certificate = issue(
        climbs,
        dict.fromkeys(withheld),
        [guarantee for each in found for guarantee in each.guarantees],
        past,
        {"certificate": {past[n].run.name: past[n].run.digest for n in new}},
        asked,
        group,
        ASSUMPTION + ("" if labelled else UNLABELLED),
        None,
        lambda law, own, at: clip_of_calls(own, at),
    )
    return Made(tuple(models), policy, certificate, (), parts, len(again))


def _climb(law: str, number: int, past: PastCalls, at: int | None) -> Climb:
    """Returns a run whose risk is 1 from the withheld call on, and 0 before."""
    end = float(len(past.run.calls))
    broken = Broken(law, end, end) if past.label == "unsafe" else None
    return Climb(number, end, () if at is None else ((float(at), 1.0),), broken)
