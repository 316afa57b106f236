"""The options that say what a guard does at which risk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.support import FILE, Number, clean, naming

if TYPE_CHECKING:
    from forewarn.monitors.guarding.decision import Kind
    from forewarn.monitors.guarding.policy import Policy, When
    from forewarn.monitors.laws.lawbook import Law

KINDS = ("none", "alert", "reflect", "ask", "slow", "stop")
THRESHOLDS = {"alert": 0.3, "reflect": 0.5, "ask": 0.5, "slow": 0.5, "stop": 0.8}
"""At which risk an intervention that was asked for begins, unless that is said."""

policy_option = click.option(
    "--policy", "policy_path", type=FILE, help="What to do at which risk, as YAML."
)
horizon_option = click.option(
    "--horizon",
    type=Number(min=0, min_open=True),
    help="How many seconds the guard's risk looks ahead; by default the policy's, or"
    " else the scenario's.",
)
intervene_option = click.option(
    "--intervene",
    metavar="KINDS",
    help=f"What the guard may do, of {', '.join(KINDS)}; several apart by commas, the"
    " mildest first. none: it decides and records, and lets everything pass.",
)
when_option = click.option(
    "--when",
    type=click.Choice(["before", "after", "both"]),
    help="Judge what an action would lead to before it is done (in worlds that can"
    " foresee it), the state observed after it, or both; by default the policy's.",
)


def chosen_policy(
    path: Path | None,
    horizon_s: float | None,
    scenario_horizon_s: float,
    intervene: str | None,
    thresholds: Sequence[float],
    when: When | None = None,
    laws: Sequence[Law] = (),
) -> Policy:
    """The policy in a file, or the default one, with what the options change.

    Args:
        path: The policy's file.
        horizon_s: The horizon that was asked for.
        scenario_horizon_s: The scenario's, for where nobody says.
        intervene: What the guard may do.
        thresholds: From which risk on; as many as interventions. None: those of a
            file that has one a law, or else `THRESHOLDS`.
        when: Which states are judged.
        laws: The scenario's: of those that ask to move a tuned policy only alerts.
    """
    from forewarn.monitors.guarding.policy import (
        ANY_LAW,
        Policy,
        Step,
        acting,
        load_policy,
    )

    policy = load_policy(path) if path else Policy(horizon_s=scenario_horizon_s)
    if horizon_s is not None and horizon_s != policy.horizon_s:
        policy = replace(policy, horizon_s=horizon_s, calibration={}, promises={})
    if when is not None:
        policy = replace(policy, when=when)
    kinds = _kinds(intervene)
    if kinds == ["none"]:
        if thresholds:
            raise click.UsageError("--intervene none takes no --threshold")
        return replace(policy, shadow=True)
    if not kinds and not thresholds:
        return policy
    wanted = kinds or ["alert"]
    tuned = path is not None and all(len(each) == 1 for each in policy.rules.values())
    if tuned and len(wanted) == 1 and not thresholds:
        return acting(policy, kind(wanted[0]), laws)
    levels = list(thresholds) or [THRESHOLDS[name] for name in wanted]
    if len(levels) != len(wanted):
        raise click.UsageError(
            f"--threshold gives {len(levels)} numbers for {', '.join(wanted)}"
            " (give one for each, apart by commas)"
        )
    if sorted(levels) != levels:
        raise click.UsageError("--threshold: a severer intervention needs more risk")
    steps = tuple(Step(kind(k), at) for k, at in zip(wanted, levels, strict=True))
    return replace(
        policy, rules={ANY_LAW: steps}, promises={}, name="from the command line"
    )


def _kinds(text: str | None) -> list[str]:
    from forewarn.abstractions.errors import near_miss

    if text is None:
        return []
    kinds = [part.strip() for part in text.split(",")]
    for name in kinds:
        if name not in KINDS:
            hint = near_miss(name, KINDS) or f"one of {', '.join(KINDS)}"
            raise click.UsageError(f"--intervene: no {name!r:.60} ({hint})")
    if "none" in kinds and len(kinds) > 1:
        raise click.UsageError("--intervene none stands alone")
    if [k for k in KINDS if k in kinds] != kinds:
        raise click.UsageError("--intervene: name each once, the mildest first")
    return kinds


def kind(text: str) -> Kind:
    """The intervention of that name."""
    from forewarn.monitors.guarding.decision import SEVERITY

    return SEVERITY[SEVERITY.index(text)]


def gaps(
    policy: Policy, laws: Sequence[str], left_out: Collection[str] = ()
) -> Iterator[str]:
    """Where a policy and what is watched do not meet.

    Raises:
        InvalidPolicy: They meet nowhere.
    """
    for law in policy.without_rule(laws):
        yield f"The policy has no rule for the law {law}: it is never acted on."
    for law in policy.rules:
        if law not in ("*", *laws, *left_out):
            yield f"The policy has a rule for {law}, which is not watched."


def tell_gaps(policy: Policy, path: Path | None, laws: Sequence[str]) -> None:
    """Says on standard error where the policy of that file and the laws do not meet."""
    with naming(path or "the policy"):
        for line in gaps(policy, laws):
            click.echo(clean(line), err=True)
