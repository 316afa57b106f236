"""`forewarn check`: how likely something is on a model, from each of its states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.models.question import Answer, Question
from forewarn.cli.options.models import of_option
from forewarn.cli.support import Count, Number, emit, json_option, table

if TYPE_CHECKING:
    pass

SHOWN_STATES = 20


@click.command()
@click.argument("model", type=click.Path(dir_okay=False, path_type=Path))
@of_option
@click.option(
    "--prop",
    "properties",
    multiple=True,
    metavar="PROPERTY",
    help="""A property, as in 'P=? [ F<=20 "crash" ]'; may be given again.""",
)
@click.option(
    "--law",
    "laws",
    multiple=True,
    metavar="NAME_OR_FORMULA",
    help="The probability that a law is violated; may be given again.",
)
@click.option(
    "--define",
    "definitions",
    multiple=True,
    metavar="NAME=FORMULA",
    help="""A label for --prop and --law, as in 'bad=s=3|s=7' or 'bad="crash"'.""",
)
@click.option(
    "--from",
    "start",
    metavar="STATE",
    help="""A state, init or all (default: all; the exit status then judges the
    model's initial state, if it has one).""",
)
@click.option(
    "--engine",
    type=click.Choice(["builtin", "storm"]),
    default="builtin",
    show_default=True,
    help="What computes; storm is the cross-check and needs stormpy.",
)
@click.option(
    "--exact", is_flag=True, help="Rational arithmetic by Storm: answers as 14/349."
)
@click.option(
    "--intervals",
    is_flag=True,
    help="With --prop: bounds that the counts behind the model support.",
)
@click.option(
    "--closed-support",
    is_flag=True,
    help="With --intervals: take it for certain that only transitions of the model's"
    " support can happen, as published intervals do.",
)
@click.option(
    "--delta",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="With --intervals: the chance that the truth lies outside the bounds.",
)
@click.option(
    "--within",
    type=Count(min=0),
    metavar="STEPS",
    help="With --law: violated within so many further steps, not ever.",
)
@click.option(
    "--semantics",
    type=click.Choice(["exact", "paper"]),
    default="exact",
    show_default=True,
    help="With --law: paper waits one step more, as Definition 5.2 has it.",
)
@json_option
@click.pass_context
def check(
    context: click.Context,
    model: Path,
    of: str | None,
    properties: tuple[str, ...],
    laws: tuple[str, ...],
    definitions: tuple[str, ...],
    start: str | None,
    engine: str,
    exact: bool,
    intervals: bool,
    closed_support: bool,
    delta: float,
    within: int | None,
    semantics: str,
    as_json: bool,
) -> None:
    """Ask a model how likely something is.

    A property is PCTL: P=? [ F<=20 "crash" ] or P>=0.9 [ "a" U "b" ], with one of
    X, F, G and U. Storm answers what goes further, such as nested P or S=? [ "a" ], and
    --exact: install the extra storm. A name in quotes is a label, a definition, a
    state, or an expression that the model's predicates decide. Exit status 1: what
    must hold does not, in a state that was asked about.
    """
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.risk.evidence import model_for

    if not properties and not laws:
        raise click.UsageError("nothing is asked: give --prop or --law")
    if not laws and (within is not None or semantics != "exact"):
        raise click.UsageError("--within and --semantics belong to --law")
    if closed_support and not intervals:
        raise click.UsageError("--closed-support belongs to --intervals")
    if intervals and (laws or exact or engine != "builtin"):
        raise click.UsageError(
            "--intervals goes with --prop alone, not with --law, --exact or --engine"
            " (forewarn show --risk has bounds for laws)"
        )
    models = load_models(model)

    @cache
    def question_of(law: str | None) -> Question:
        one = model_for(models, of or law, str(model))
        return Question(model, one, definitions, start, engine, exact)

    question = question_of(laws[0] if laws else None)
    bounds = (delta, closed_support) if intervals else None
    answers = [question.answer(text, bounds) for text in properties]
    asked = [question] * len(answers)
    for text in laws:
        question = question_of(text)
        found = list(question.answer_law(text, within, semantics))
        answers += found
        asked += [question] * len(found)
    payloads = [answer.payload for answer in answers]
    payload = payloads[0] if len(payloads) == 1 else {"results": payloads}
    words = [each.words for each in asked]
    emit(as_json, payload, _lines(answers, words))
    if any(map(Answer.fails_in, answers, (each.judged for each in asked))):
        context.exit(1)


def _lines(
    answers: Sequence[Answer], words: Sequence[Callable[[str], str]]
) -> Iterator[str]:
    for number, answer in enumerate(answers):
        yield from [""] if number else []
        yield answer.title
        values = answer.payload["values"]
        law = any(isinstance(value, dict) for value in values.values())
        head, rows = (_law_rows if law else _property_rows)(answer)
        shown = rows[:SHOWN_STATES]
        for row in shown:
            row.append(words[number](row[0]))
        if any(row[-1] for row in shown):
            head.append("what holds")
        yield from table(head, [row[: len(head)] for row in shown])
        if len(rows) > len(shown):
            which = "worst" if law else "highest" if answer.highest_first else "lowest"
            yield (
                f"The {which} {len(shown)} of {len(rows)} states; --json lists all, "
                "--from STATE asks about one."
            )
        if support := answer.payload.get("assumes"):
            sure = 1 - answer.payload["delta"]
            yield (
                f"[low, high] holds the truth of all states at once with probability "
                f"{sure:g}; it takes for certain {support}."
            )
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
    """For each state the monitor that read it alone, and the worst that may be."""
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
