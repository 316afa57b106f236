"""`forewarn check`: how likely something is on a model, from each of its states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.abstractions.errors import InvalidInput
from forewarn.cli.options.models import of_option
from forewarn.cli.support import Count, Number, emit, json_option, naming, table

if TYPE_CHECKING:
    from forewarn.monitors.chains.model import Model
    from forewarn.monitors.checking.language.properties import StateFormula
    from forewarn.monitors.checking.law_checking import LawAnswer

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
    help="Who computes; storm is the cross-check and needs stormpy.",
)
@click.option("--exact", is_flag=True, help="Rational arithmetic: answers as 14/349.")
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

    A property is PCTL (P=? [ F<=20 "crash" ], P>=0.9 [ "a" U "b" ], with X U F G W R)
    or CTL (AG !"crash", E [ F "goal" ]). A name in quotes is a label, a definition, a
    state, or an expression that the model's predicates decide. Exit status 1: what
    must hold does not, in a state that was asked about.
    """
    from forewarn.monitors.chains.model import load_models
    from forewarn.monitors.checking.language.parser import parse_property
    from forewarn.monitors.risk.parts import model_for

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
    formulas = [parse_property(text) for text in properties]
    models = load_models(model)

    @cache
    def question_of(law: str | None) -> _Question:
        one = model_for(models, of or law, str(model))
        return _Question(model, one, definitions, start, engine, exact)

    question = question_of(laws[0] if laws else None)
    answers = list(map(question.answer, properties, formulas))
    if intervals:
        question.add_bounds(answers, formulas, delta, closed_support)
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
    if any(map(_Answer.fails_in, answers, (each.judged for each in asked))):
        context.exit(1)


@dataclass
class _Answer:
    """What is printed for one property or law; `payload` as the JSON has it."""

    title: str
    payload: dict[str, Any]
    highest_first: bool = True
    fresh: dict[str, str] = field(default_factory=dict)

    def fails_in(self, states: Iterable[str]) -> bool:
        """Whether what must hold does not, in one of these states."""
        values = self.payload["values"]
        return any(values[state] is False for state in states)


class _Question:
    """What is the same for every property and law that is asked about."""

    def __init__(
        self,
        path: Path,
        model: Model,
        definitions: Sequence[str],
        start: str | None,
        engine: str,
        exact: bool,
    ) -> None:
        from forewarn.monitors.checking.labelling import Labelling
        from forewarn.monitors.risk.evidence import abstraction_of

        self._path, self._model = path, model
        self._abstraction = abstraction_of(self._model)
        self._chain = self._model.chain
        self._labelling = Labelling(self._chain, self._abstraction)
        for definition in definitions:
            self._labelling.define(definition)
        self._unasked = start is None
        self._states = self._asked(start)
        self._engine, self._exact = engine, exact

    def _asked(self, start: str | None) -> list[int]:
        """The states that the answer is for."""
        chain = self._chain
        if start in (None, "all"):
            return list(range(chain.n))
        if start != "init":
            with naming("--from"):
                return [chain.index(start)]
        if chain.initial is None:
            raise InvalidInput(
                "the model has no initial state",
                source="--from init",
                mend="--from all",
            )
        return [chain.initial]

    @property
    def judged(self) -> list[str]:
        """The states whose answers decide the exit status."""
        chain = self._chain
        one = self._unasked and chain.initial is not None
        states = [chain.initial] if one else self._states
        return [chain.states[state] for state in states if state is not None]

    def answer(self, text: str, formula: StateFormula) -> _Answer:
        """The answer to a property."""
        from forewarn.monitors.checking.evaluation import check, make_engine
        from forewarn.monitors.checking.exact import fraction_text
        from forewarn.monitors.checking.language.properties import Probability

        engine = make_engine(self._engine, self._chain, exact=self._exact)
        with naming(text):
            self._labelling.require(formula)
            answer = check(formula, self._labelling, engine)
        payload: dict[str, Any] = {
            "engine": engine.name,
            "property": text,
            "values": self._by_state(answer.values.tolist()),
        }
        if answer.exact is not None:
            fractions = self._by_state(answer.exact)
            payload["exact"] = {s: fraction_text(f) for s, f in fractions.items()}
        self._warn(payload, answer.warnings)
        good = isinstance(formula, Probability) and formula.path.operator in "GWR"
        return _Answer(text, payload, highest_first=not good)

    def add_bounds(
        self,
        answers: Sequence[_Answer],
        formulas: Sequence[StateFormula],
        delta: float,
        closed_support: bool,
    ) -> None:
        """Puts the least and greatest probability beside each answer."""
        from forewarn.monitors.chains.intervals import model_intervals, premise
        from forewarn.monitors.checking.bounding import bound
        from forewarn.monitors.checking.evaluation import Evaluator, make_engine

        chain = self._chain
        with naming(self._path):
            intervals = model_intervals(
                self._model, delta, closed_support=closed_support
            )
        support = premise(self._model, closed_support=closed_support)
        evaluator = Evaluator(self._labelling, make_engine("builtin", chain))
        for answer, formula in zip(answers, formulas, strict=True):
            with naming(answer.title):
                bounds = bound(formula, evaluator, intervals)
            low, high = (self._by_state(v.tolist()) for v in (bounds.low, bounds.high))
            values = answer.payload["values"]
            outside: list[str] = []
            for state, value in values.items():
                if not low[state] - 1e-9 <= value <= high[state] + 1e-9:
                    outside.append(state)
                    continue
                # The last digits of three computations need not be in order.
                low[state] = min(low[state], value)
                high[state] = max(high[state], value)
            answer.payload = {
                **{k: v for k, v in answer.payload.items() if k != "values"},
                "low": low, "values": values, "high": high,
                "delta": delta, "assumes": support,
            }  # fmt: skip
            if outside:
                self._warn(answer.payload, [_outside(outside)])

    def answer_law(
        self, name_or_formula: str, within: int | None, semantics: str
    ) -> Iterator[_Answer]:
        """The answers for a law, or for each law of an article."""
        from forewarn.monitors.checking.exact import fraction_text
        from forewarn.monitors.checking.law_checking import check_law, laws_on

        ever = "ever" if within is None else f"within {within} steps"
        with naming("--law"):
            laws = laws_on(self._labelling, name_or_formula)
        for law in laws:
            with naming("--law"):
                answer = check_law(
                    law,
                    self._labelling,
                    period_s=self._model.period_s,
                    within=within,
                    semantics=semantics,
                    engine=self._engine,
                    exact=self._exact,
                )
            payload = {
                "engine": self._engine,
                "law": law.name,
                "values": self._by_pair(answer, answer.values.tolist(), float),
            }
            if answer.exact is not None:
                exact = self._by_pair(answer, answer.exact.tolist(), fraction_text)
                payload["exact"] = exact
            self._warn(payload, ())
            fresh = [answer.monitor[q] for q in answer.fresh.tolist()]
            if self._chain.end is not None:
                fresh[self._chain.end] = ""
            yield _Answer(
                f"{law.name} violated {ever}", payload, fresh=self._by_state(fresh)
            )

    def words(self, state: str) -> str:
        """What holds in a state, if the model's predicates say."""
        if self._abstraction is None or self._chain.index(state) == self._chain.end:
            return ""
        bits = self._abstraction.bits(state)
        held = [t for i, t in enumerate(self._abstraction.texts) if bits >> i & 1]
        return " and ".join(held) or "none of them"

    def _by_state(self, values: Sequence[Any]) -> dict[str, Any]:
        return {self._chain.states[i]: values[i] for i in self._states}

    def _by_pair(
        self, answer: LawAnswer, values: list[list[Any]], shown: Callable[[Any], Any]
    ) -> dict[str, dict[str, Any]]:
        return {
            self._chain.states[s]: {
                name: shown(values[q][s])
                for q, name in enumerate(answer.monitor)
                if answer.possible[q, s]
            }
            for s in self._states
        }

    def _warn(self, payload: dict[str, Any], more: Sequence[str]) -> None:
        """Adds warnings, the chain's own with the first ones."""
        said = payload.pop("warnings", None)
        said = list(self._chain.warnings()) if said is None else said
        if said or more:
            payload["warnings"] = [*said, *more]


def _outside(states: Sequence[str]) -> str:
    names = ", ".join(states[:5])
    more = f" and {len(states) - 5} more" if len(states) > 5 else ""
    return f"the smoothed estimate lies outside the bounds in state {names}{more}"


def _lines(
    answers: Sequence[_Answer], words: Sequence[Callable[[str], str]]
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


def _property_rows(answer: _Answer) -> tuple[list[str], list[list[str]]]:
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


def _law_rows(answer: _Answer) -> tuple[list[str], list[list[str]]]:
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
