"""`forewarn tune --for stop`: from which risk on to act, and what that came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from forewarn.cli.support import emit, table

if TYPE_CHECKING:
    from forewarn.monitors.guarding.decision import Kind
    from forewarn.monitors.guarding.policy import Policy
    from forewarn.scenarios.training.acting import Acted, Trial
    from forewarn.scenarios.training.tune import Settled


def act(
    trial: Trial,
    found: Settled,
    base: Policy,
    what: Kind,
    holds_s: Sequence[float],
    longer: float,
    wanted: int,
    out: Path,
    as_json: bool,
) -> None:
    """Takes the threshold, and how long to hold, from which on acting is worth most."""
    from forewarn.monitors.guarding.policy import write_policy
    from forewarn.scenarios.training.acting import THRESHOLDS, acting_policy

    best, scenario = found.best, trial.scenario
    laws = [law for law in scenario.laws if law.name in best.calibration]
    base = replace(
        base, horizon_s=best.horizon_s,
        calibration={law: c for law, c in best.calibration.items() if c.points},
    )  # fmt: skip
    policies = [(at, acting_policy(base, laws, what, at)) for at in THRESHOLDS]
    tried, taken = trial.search(policies, (*holds_s, base.hold_s), longer)
    write_policy(out, replace(dict(policies)[taken.threshold], hold_s=taken.hold_s))
    payload = {
        "scenario": scenario.name,
        "policy": str(out),
        "for": what,
        "cost": taken.cost,
        "horizon_s": best.horizon_s,
        "threshold": taken.threshold,
        "hold_s": taken.hold_s,
        "seeds": [each.seed for each in trial.before],
        "violating": trial.violating,
        "tried": [each.as_dict() for each in tried],
    }
    emit(as_json, payload, _lines(trial, tried, taken, wanted, what, out))


def _lines(
    trial: Trial,
    tried: Sequence[Acted],
    taken: Acted,
    wanted: int,
    what: Kind,
    out: Path,
) -> Iterator[str]:
    yield (
        f"In {len(trial.before)} training runs the guard acts ({what}) from a threshold"
        f" on; stepping in once costs {taken.cost:g} violations:"
    )
    rows = [
        (
            f"{each.threshold:g}",
            f"{each.hold_s:g} s",
            f"{each.prevented} of {each.violating}",
            str(each.caused),
            str(each.interventions),
            f"{each.prolonged} of {each.clean}",
            "-" if each.longer is None else f"{each.longer:.2f}",
            f"{each.worth:.2f}",
        )
        for each in tried
    ]
    head = [
        "threshold", "held", "prevented", "caused", "runs with it",
        "longer by a tenth", "longer", "worth",
    ]  # fmt: skip
    yield from table(head, rows)
    if trial.violating < wanted:
        yield (
            f"Only {trial.violating} of these runs break a law without a guard, and"
            f" {wanted} were wanted: what is best is not well known."
        )
    yield (
        f"{out}: {what} from a risk of {taken.threshold:g} on, until it has stayed low"
        f" for {taken.hold_s:g} s"
    )
