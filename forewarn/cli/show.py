"""`forewarn show`: prints a model as text or JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from forewarn.abstractions.errors import InvalidInput, naming
from forewarn.cli.command import (
    Chance,
    File,
    Positive,
    Seed,
    command,
)
from forewarn.cli.printing import (
    printed,
    say,
    table,
)

if TYPE_CHECKING:
    from forewarn.abstractions.abstraction import Abstraction
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.risk.evidence import RiskRow


DEFAULT_HORIZON_S = 5.0
_SHOWN_SUCCESSORS = 3


@dataclass(frozen=True, slots=True)
class Risked:
    """The risks to show.

    Args:
        risk: Show the risk in every state.
        law: Law to show the risk for with --risk (default: the laws of the model); may
            be repeated.
        define: With --risk: definition of a label for --law, such as 'bad=s=3|s=7'; may
            be repeated.
        horizon: With --risk: prediction horizon in seconds (default: 5).
        within: With --risk: prediction horizon in steps (not with --horizon).
        delta: With --risk: maximum probability that a true risk is outside its bounds.
        policy: Also show the effects of slowing and stopping at each risk, according to
            the counts in this policy.
    """

    risk: bool = False
    law: tuple[Annotated[str, "NAME_OR_FORMULA"], ...] = ()
    define: tuple[Annotated[str, "NAME=FORMULA"], ...] = ()
    horizon: Positive | None = None
    within: Annotated[Seed | None, "STEPS"] = None
    delta: Chance = 0.05
    policy: File | None = None

    def steps(self, period_s: float | None) -> int:
        """Returns the horizon in steps."""
        if self.within is not None:
            return self.within
        if period_s is None:
            raise click.UsageError("the model has no period: give --within STEPS")
        return max(int((self.horizon or DEFAULT_HORIZON_S) / period_s + 1e-9), 0)


@command()
def show(model: File, /, *, asked: Risked) -> None:
    """Print a model: its states, transitions and training data.

    If a file contains several models for different laws, all are printed.
    """
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.evaluation.branched import by_law
    from forewarn.monitors.guarding.policy import load_policy
    from forewarn.monitors.risk.evidence import (
        laws_of,
    )
    from forewarn.scenarios.measuring.shown import branched
    from forewarn.scenarios.schema import shipped_scenarios

    if not model.exists() and str(model) in shipped_scenarios():
        raise InvalidInput(
            "this is a scenario, not a model",
            source=str(model),
            mend=f"use `forewarn scenarios {model}`, or give a model file",
        )
    models = load_models(model)
    if asked.law and not asked.risk and len(models) == 1:
        raise click.UsageError("--law requires --risk")
    payloads: list[dict[str, Any]] = []
    lines: list[str] = []
    own = [{*found.laws, *(law.name for law in laws_of(found))} for found in models]
    if len(models) > 1 and (strange := set(asked.law).difference(*own)):
        known = ", ".join(law for found in models for law in found.laws)
        raise click.UsageError(
            f"--law {min(strange)}: the file has models only for {known}"
        )
    for found, names in zip(models, own, strict=True):
        laws = tuple(law for law in asked.law if len(models) == 1 or law in names)
        if asked.law and not laws:
            continue
        payload, told = _shown(model, found, replace(asked, law=laws))
        payloads.append(payload)
        lines += [*([""] if lines else []), *told]
    payload = payloads[0] if len(models) == 1 else {"models": payloads}
    if asked.policy is not None:
        payload["if_acted"] = by_law(load_policy(asked.policy).if_acted)
        lines += printed(branched(payload["if_acted"]))
    say(payload, lines)


def _shown(
    model: Path, found: Model, asked: Risked
) -> tuple[dict[str, Any], list[str]]:
    """Returns one model, as JSON and as text."""
    from forewarn.monitors.chains.intervals import premise
    from forewarn.monitors.risk.evidence import abstraction_of

    abstraction = abstraction_of(found)
    payload = _payload(found)
    lines = list(_lines(model, found, abstraction))
    if asked.risk:
        steps = asked.steps(found.period_s)
        payload["risk"] = {}
        for text, rows in _risks(found, steps, asked):
            payload["risk"][text] = {
                "horizon_steps": steps,
                "states": {row.state: _risk_payload(row) for row in rows},
            }
            lines += ["", *_risk_lines(text, rows, steps, found)]
        if found.counts is not None:
            payload["bounds"] = {"delta": asked.delta, "assumes": premise(found)}
            lines.append(bounds_line(asked.delta, premise(found)))
            lines += _on_first_visits(found, steps, str(model))
    return payload, lines


def _on_first_visits(model: Model, steps: int, source: str) -> Iterator[str]:
    """Yields a sentence on bounds for first visits, if the model has such bounds.

    It says that the bounds are shown, or which option shows them.
    """
    from forewarn.monitors.risk.first_visits import FirstVisits

    kept = model.first_visits.values()
    known = {FirstVisits.from_dict(each, source).horizon_s for each in kept}
    if model.period_s is None or not known:
        return
    if any(math.isclose(steps * model.period_s, each) for each in known):
        yield (
            "In states that training runs reached, [low, high] applies to a run's "
            "first visit."
        )
    else:
        horizon = " or ".join(f"--horizon {each:g}" for each in sorted(known))
        yield f"{horizon} shows narrower bounds, for a run's first visit to a state."


def bounds_line(delta: float, support: str) -> str:
    """Returns a sentence on the confidence level and assumptions of the bounds."""
    return (
        f"With probability {1 - delta:g}, [low, high] contains the true value in "
        f"every state; it assumes {support}."
    )


def _risks(
    model: Model, steps: int, asked: Risked
) -> Iterator[tuple[str, list[RiskRow]]]:
    from forewarn.monitors.checking.risks import risks_on

    if not (asked.law or model.laws):
        raise click.UsageError(
            "the model specifies no laws: give --law NAME_OR_FORMULA"
        )
    with naming("--law"):
        yield from risks_on(model, asked.law, asked.define, steps, asked.delta)


def _payload(model: Model) -> dict[str, Any]:
    from forewarn.monitors.chains.formats.own import model_as_dict, named_counts

    chain = model.chain
    optional = model_as_dict(model)
    kept = ("initial", "labels", "alpha", "support", "end", "abstraction", "period_s")
    return {
        "states": list(chain.states),
        "rows": {
            name: {chain.states[j]: p for j, p in chain.row(i).items()}
            for i, name in enumerate(chain.states)
        },
        "counts": named_counts(model),
        "training": dict(model.training),
        "visits": {
            name: int(times)
            for name, times in zip(
                chain.states,
                model.visits if model.visits is not None else (),
                strict=False,
            )
        },
        "unvisited": [chain.states[i] for i in model.unvisited],
        "laws": list(model.laws),
        **{key: optional[key] for key in kept if key in optional},
        "warnings": list(chain.warnings()),
    }


def _lines(path: Path, model: Model, abstraction: Abstraction | None) -> Iterator[str]:
    chain, facts = model.chain, model.training
    yield f"{path}: {chain.n} states, {chain.transitions} transitions"
    if model.counts is not None:
        ends = {
            "absorb": "the end of a trace leads to END",
            "ignore": "the ends of traces are ignored",
        }
        yield (
            f"Learned from {facts.get('traces', '?')} traces with "
            f"{facts.get('frames', '?')} frames; alpha {model.alpha} over "
            f"{model.support} transitions; {ends[model.end]}."
        )
    if model.period_s is not None:
        yield f"A step takes {model.period_s:g} s."
    for law in model.laws:
        yield f"Law: {law}"
    for label, members in chain.labels.items():
        names = ", ".join(chain.states[i] for i in sorted(members)[:5])
        yield f"Label {label}: {names}{', …' if len(members) > 5 else ''}"
    if abstraction is not None:
        yield "Predicates, in the order of a state's digits:"
        for line in abstraction.listed():
            yield f"  {line}"
    for warning in chain.warnings():
        yield f"Warning: {warning}."
    yield ""
    yield from _state_table(model, abstraction)


def _state_table(model: Model, abstraction: Abstraction | None) -> Iterator[str]:
    """Yields one line per state, the most visited state first."""
    chain, visits = model.chain, model.visits
    order = list(range(chain.n))
    if visits is not None:
        order.sort(key=lambda i: (-int(visits[i]), i))
    head = ["state", "leads to"]
    rows = [[chain.states[i], _successors(model, i)] for i in order]
    if visits is not None:
        head.insert(1, "visits")
        for row, i in zip(rows, order, strict=True):
            row.insert(1, f"{int(visits[i]):,}")
    head.append("true predicates" if abstraction else "")
    for row, i in zip(rows, order, strict=True):
        row.append(_what_holds(model, abstraction, i))
    yield from table(head, rows)


def _successors(model: Model, state: int) -> str:
    chain = model.chain
    row = chain.row(state)
    if set(row) == {state}:
        return "stays"
    likely = sorted(row.items(), key=lambda entry: (-entry[1], entry[0]))
    shown = [f"{chain.states[j]} {p:.4g}" for j, p in likely[:_SHOWN_SUCCESSORS]]
    if len(likely) > _SHOWN_SUCCESSORS:
        shown.append(f"{len(likely) - _SHOWN_SUCCESSORS} more")
    made_up = " (assumed)" if state in model.unvisited else ""
    return ", ".join(shown) + made_up


def _what_holds(model: Model, abstraction: Abstraction | None, state: int) -> str:
    chain = model.chain
    marks = ["starts here"] if state == chain.initial else []
    if abstraction is not None and state != chain.end:
        held = abstraction.holding(abstraction.bits(chain.states[state]))
        marks.insert(0, " and ".join(held) or "none")
    return "; ".join(marks)


def _risk_payload(row: RiskRow) -> dict[str, Any]:
    content = asdict(row)
    del content["state"]
    return content


def _risk_lines(
    law: str, rows: list[RiskRow], steps: int, model: Model
) -> Iterator[str]:
    from forewarn.monitors.risk.evidence import for_people

    ahead = f"{steps} steps"
    if model.period_s is not None:
        ahead += f" ({steps * model.period_s:g} s)"
    yield f"Risk within {ahead} of breaking {law}"
    ordered = sorted(rows, key=lambda row: (-row.worst.risk, row.state))
    yield from table(*for_people(ordered))
    if any(row.fresh.likely for row in rows):
        yield (
            "The bounds in brackets come from the transition counts. `likely` "
            "contains the calibrated risk in 95 % of resamples of whole runs; it "
            "contains the true risk less often."
        )
