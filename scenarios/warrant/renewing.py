"""Renews the certificate of a guard with further runs: keeps the model, and sets new
thresholds.

Runs that the guard was learned from are left out, as are all other runs of their
groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.chains.model import Model
from forewarn.monitors.evaluation.certified import Asked
from forewarn.monitors.guarding.certificate import Certificate
from forewarn.monitors.guarding.policy import Policy
from forewarn.monitors.risk.evidence import laws_of
from forewarn.scenarios.warrant.making import PARTS, Learned, Made, certified_on
from forewarn.scenarios.warrant.runs import LoggedRun, once


def renew(
    certificate: Certificate,
    models: Sequence[Model],
    policy: Policy,
    past: Sequence[LoggedRun],
) -> Made:
    """Certifies a guard again, on all runs that were not used to learn it.

    Args:
        certificate: The previous certificate, which also lists the runs that the guard
            was learned from.
        models: The guard's models.
        policy: The guard's policy.
        past: The original runs together with new ones.
    """
    new, again = once([each.stored.digest for each in past])
    past = [past[number] for number in new]
    group = certificate.group or None
    runs = _not_learned_from(certificate, past)
    asked = _asked_then(certificate)
    period_s = past[0].run.header.period_s or 0.0
    guards = []
    for model in models:
        abstraction = Abstraction.from_dict(dict(model.abstraction or {}), "the model")
        clock_s = model.period_s or abstraction.period_s or period_s
        guards.append(
            Learned.of(model, abstraction, laws_of(model), policy.horizon_s, clock_s)
        )
    before = {name: certificate.runs[name] for name in PARTS[1:]}
    return certified_on(guards, policy, past, runs, before, asked, group, len(again))


def _not_learned_from(certificate: Certificate, past: Sequence[LoggedRun]) -> list[int]:
    """Returns the indices of the runs that are not in a group with training runs.

    Raises:
        InvalidInput: The groups of the runs that it was learned from are unknown.
    """
    learned_from = {
        digest for name in PARTS[1:] for digest in certificate.runs[name].values()
    }
    groups = [each.group for each in past if each.stored.digest in learned_from]
    missing = len(learned_from) - len(groups)
    if missing and certificate.group:
        raise InvalidInput(
            f"{missing} runs that the guard was learned from are not "
            f"in the logs, so their {certificate.group} is unknown",
            mend="give the original logs together with the new ones",
        )
    taken = set(groups) if certificate.group else set()
    return [
        number
        for number, each in enumerate(past)
        if each.stored.digest not in learned_from and each.group not in taken
    ]


def _asked_then(certificate: Certificate) -> Asked:
    """Returns the rates that the certificate guarantees."""
    most = {each.rate: each.most for each in certificate.guarantees}
    return Asked(
        most["false_alarms"], most.get("missed"), certificate.confidence,
        len(certificate.laws),
    )  # fmt: skip
