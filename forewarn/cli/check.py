"""`forewarn check`: computes the probability of a property in each state of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

import click

from forewarn.cli.command import (
    Chance,
    File,
    Seed,
    command,
)
from forewarn.cli.printing import (
    say_each,
    table,
)
from forewarn.cli.show import (
    bounds_line,
)

if TYPE_CHECKING:
    from forewarn.monitors.checking.question import Answer, Question

SHOWN_STATES = 20


@dataclass(frozen=True, slots=True)
class CheckedProperties:
    """The properties to check.

    Args:
        of: For a file with several models: use the model for this law.
        prop: PCTL property, such as 'P=? [ F<=20 "crash" ]'; may be repeated.
        law: Compute the probability of violating this law; may be repeated.
        define: Definition of a label for --prop and --law, such as 'bad=s=3|s=7' or
            'bad="crash"'; may be repeated.
        from_: State to evaluate: its name, init or all. With all, which is the default,
            the exit status depends on the initial state only, if the model has one.
    """

    of: Annotated[str | None, "LAW"] = None
    prop: tuple[Annotated[str, "PROPERTY"], ...] = ()
    law: tuple[Annotated[str, "NAME_OR_FORMULA"], ...] = ()
    define: tuple[Annotated[str, "NAME=FORMULA"], ...] = ()
    from_: Annotated[str | None, "STATE"] = None


@dataclass(frozen=True, slots=True)
class Computed:
    """The method of computation.

    Args:
        engine: With --prop: model checker (not with --law). storm is for cross-checking
            and needs stormpy.
        exact: With --prop: compute exact rational results with Storm, such as 14/349
            (not with --law).
        intervals: With --prop: compute confidence bounds from the model's transition
            counts (not with --law, --exact or --engine). For the risk of a law,
            `forewarn show --risk` computes them.
        closed_support: With --intervals: assume that only transitions in the model's
            support are possible, as most papers do.
        delta: With --intervals: maximum probability that the true value is outside the
            bounds.
        within: With --law: probability of a violation within this many steps (default:
            at any time).
    """

    engine: Literal["builtin", "storm"] = "builtin"
    exact: bool = False
    intervals: bool = False
    closed_support: bool = False
    delta: Chance = 0.05
    within: Annotated[Seed | None, "STEPS"] = None


@command()
def check(model: File, /, *, asked: CheckedProperties, how: Computed) -> None:
    """Compute the probability of a property or of violating a law in a model.

    Properties are written in PCTL, such as P=? [ F<=20 "crash" ] or P>=0.9 [ "a" U "b"
    ], with one of the operators X, F, G and U. Other properties, such as nested P or
    S=? [ "a" ], and the option --exact need Storm (install the extra storm). A name in
    quotes is a label, a definition, a state, or an expression whose value follows
    from the model's predicates. The exit status is 1 if a property with a bound is
    false in any of the requested states.
    """
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.checking.question import Question
    from forewarn.monitors.risk.evidence import (
        model_for,
    )

    if not asked.prop and not asked.law:
        raise click.UsageError("there is nothing to check: give --prop or --law")
    models = load_models(model)

    @cache
    def question_of(law: str | None) -> Question:
        one = model_for(models, law, str(model), asked.of)
        return Question(model, one, asked.define, asked.from_, how.engine, how.exact)

    question = question_of(asked.law[0] if asked.law else None)
    bounds = (how.delta, how.closed_support) if how.intervals else None
    found = [(question, question.answer(text, bounds)) for text in asked.prop]
    for text in asked.law:
        question = question_of(text)
        laws = question.answer_law(text, how.within)
        found += [(question, answer) for answer in laws]
    say_each(
        [(answer.payload, _lines(answer, asks.words)) for asks, answer in found],
        "results",
        found=any(answer.fails_in(asks.judged) for asks, answer in found),
    )


def _lines(answer: Answer, words: Callable[[str], str]) -> Iterator[str]:
    yield answer.title
    values = answer.payload["values"]
    law = any(isinstance(value, dict) for value in values.values())
    head, rows = (_law_rows if law else _property_rows)(answer)
    for row in rows[:SHOWN_STATES]:
        row.append(words(row[0]))
    if any(row[-1] for row in rows[:SHOWN_STATES]):
        head.append("true predicates")
    which = "worst" if law else "highest" if answer.highest_first else "lowest"
    yield from table(head, [row[: len(head)] for row in rows[:SHOWN_STATES]])
    if len(rows) > SHOWN_STATES:
        yield (
            f"The {which} {SHOWN_STATES} of {len(rows)} states; --json lists all, "
            "--from STATE shows one."
        )
    if support := answer.payload.get("assumes"):
        yield bounds_line(answer.payload["delta"], support)
    for warning in answer.payload.get("warnings", ()):
        yield f"Warning: {warning}."


def _property_rows(answer: Answer) -> tuple[list[str], list[list[str]]]:
    payload = answer.payload
    values = payload["values"]
    if any(isinstance(value, bool) for value in values.values()):
        order = sorted(values, key=lambda state: values[state])
        return ["state", "holds"], [[s, "yes" if values[s] else "no"] for s in order]
    sign = -1 if answer.highest_first else 1
    order = sorted(values, key=lambda state: sign * values[state])
    columns = {"low": "low", "values": "probability", "high": "high", "exact": "exact"}
    kept = [key for key in columns if key in payload]
    rows = [[s, *(_figure(payload[key][s]) for key in kept)] for s in order]
    return ["state", *(columns[key] for key in kept)], rows


def _law_rows(answer: Answer) -> tuple[list[str], list[list[str]]]:
    """Returns the rows of the table for a law, with two probabilities for each state.

    The first applies if the run begins in the state, the second if the law's monitor is
    in its worst state.
    """
    rows = list[tuple[float, list[str]]]()
    for state, fresh in answer.fresh.items():
        by_monitor = answer.payload["values"][state]
        possible = {q: p for q, p in by_monitor.items() if q != "violated"}
        worst = max(possible, key=lambda q: possible[q], default="violated")
        now = _figure(by_monitor.get(fresh, 0.0)) if fresh else ""
        most = by_monitor.get(worst, 1.0)
        rows.append((most, [state, fresh, now, worst, _figure(most)]))
    rows.sort(key=lambda row: -row[0])
    head = ["state", "monitor", "probability", "worst in", "probability"]
    return head, [row for _, row in rows]


def _figure(value: float | str) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if len(value) <= 40 else f"{len(value)} characters"
