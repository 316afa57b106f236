"""Queries of a model for properties and laws, and the printed form of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, InvalidProperty, naming
from forewarn.monitors.chains.intervals import model_intervals, premise
from forewarn.monitors.chains.model import Model
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.law_checking import LawAnswer, check_law, laws_on
from forewarn.monitors.checking.properties import (
    Property,
    check,
    define,
    parse_property,
)
from forewarn.monitors.checking.reaching import bounds
from forewarn.monitors.checking.storm import fraction_text
from forewarn.monitors.risk.evidence import abstraction_of, in_words_of


@dataclass
class Answer:
    """The result for one property or law; `payload` is the result as JSON."""

    title: str
    payload: dict[str, Any]
    highest_first: bool = True
    fresh: dict[str, str] = field(default_factory=dict)

    def fails_in(self, states: Iterable[str]) -> bool:
        """Whether a required bound is not met in one of these states."""
        values = self.payload["values"]
        return any(values[state] is False for state in states)


class Question:
    """A query of one model: the settings shared by all its properties and laws."""

    def __init__(
        self,
        path: Path,
        model: Model,
        definitions: Sequence[str],
        start: str | None,
        engine: str,
        exact: bool,
    ) -> None:

        self._path, self._model = path, model
        self._abstraction = abstraction_of(self._model)
        self._chain = self._model.chain
        self._labelling = Labelling(self._chain, self._abstraction)
        for definition in definitions:
            define(self._labelling, definition)
        self._unasked = start is None
        self._states = self._asked(start)
        self._engine, self._exact = engine, exact

    def _asked(self, start: str | None) -> list[int]:
        """Returns the states for which the answer is requested."""
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
                mend="use --from all",
            )
        return [chain.initial]

    @property
    def judged(self) -> list[str]:
        """The states whose answers decide the exit status."""
        chain = self._chain
        one = self._unasked and chain.initial is not None
        states = [chain.initial] if one else self._states
        return [chain.states[state] for state in states if state is not None]

    def answer(self, text: str, intervals: tuple[float, bool] | None) -> Answer:
        """Evaluates a property, with bounds at a given delta if requested."""

        with naming(text):
            formula = parse_property(text, self._labelling)
            answer = check(formula, self._labelling, self._engine, self._exact)
        payload: dict[str, Any] = {
            "engine": answer.engine,
            "property": text,
            "values": self._by_state(answer.values.tolist()),
        }
        if answer.exact is not None:
            fractions = self._by_state(answer.exact)
            payload["exact"] = {s: fraction_text(f) for s, f in fractions.items()}
        self._warn(payload, ())
        path = formula.path
        found = Answer(text, payload, highest_first=path is None or not path.opposite)
        if intervals is not None:
            self._add_bounds(found, formula, *intervals)
        return found

    def _add_bounds(
        self, answer: Answer, formula: Property, delta: float, closed_support: bool
    ) -> None:
        """Adds the minimum and maximum probability to an answer."""

        if formula.path is None or formula.relation:
            raise InvalidProperty(
                "--intervals needs a property P=? with a single X, F, G or U",
                source=answer.title,
                mend="ask P=? [ ... ], and use --define for the nested parts",
            )
        with naming(self._path):
            intervals = model_intervals(
                self._model, delta, closed_support=closed_support
            )
        support = premise(self._model, closed_support=closed_support)
        low, high = (
            self._by_state(v.tolist()) for v in bounds(intervals, formula.path)
        )
        values = answer.payload["values"]
        outside: list[str] = []
        for state, value in values.items():
            if not low[state] - 1e-9 <= value <= high[state] + 1e-9:
                outside.append(state)
                continue
            # The three values are computed separately, so rounding may change their
            # order.
            low[state] = min(low[state], value)
            high[state] = max(high[state], value)
        answer.payload = {
            **{k: v for k, v in answer.payload.items() if k != "values"},
            "low": low, "values": values, "high": high,
            "delta": delta, "assumes": support,
        }  # fmt: skip
        if outside:
            self._warn(answer.payload, [_outside(outside)])

    def answer_law(self, name_or_formula: str, within: int | None) -> Iterator[Answer]:
        """Yields the answer for a law, or for each law of an article."""

        ever = "ever" if within is None else f"within {within} steps"
        with naming("--law"):
            asked = in_words_of(self._model, name_or_formula)
            laws = laws_on(self._labelling, asked)
        for law in laws:
            with naming("--law"):
                answer = check_law(
                    law,
                    self._labelling,
                    period_s=self._model.period_s,
                    within=within,
                )
            payload = {
                "engine": "builtin",
                "law": law.name,
                "values": self._by_pair(answer),
            }
            self._warn(payload, ())
            fresh = [answer.monitor[q] for q in answer.fresh.tolist()]
            if self._chain.end is not None:
                fresh[self._chain.end] = ""
            yield Answer(
                f"{law.name} violated {ever}", payload, fresh=self._by_state(fresh)
            )

    def words(self, state: str) -> str:
        """Returns a state's true predicates as text; empty without an abstraction."""
        if self._abstraction is None or self._chain.index(state) == self._chain.end:
            return ""
        held = self._abstraction.holding(self._abstraction.bits(state))
        return " and ".join(held) or "none of them"

    def _by_state(self, values: Sequence[Any]) -> dict[str, Any]:
        return {self._chain.states[i]: values[i] for i in self._states}

    def _by_pair(self, answer: LawAnswer) -> dict[str, dict[str, float]]:
        return {
            self._chain.states[s]: {
                name: float(answer.values[q, s])
                for q, name in enumerate(answer.monitor)
                if answer.possible[q, s]
            }
            for s in self._states
        }

    def _warn(self, payload: dict[str, Any], more: Sequence[str]) -> None:
        """Adds warnings to an answer; the first call also adds the chain's warnings."""
        said = payload.pop("warnings", None)
        said = list(self._chain.warnings()) if said is None else said
        if said or more:
            payload["warnings"] = [*said, *more]


def _outside(states: Sequence[str]) -> str:
    names = ", ".join(states[:5])
    more = f" and {len(states) - 5} more" if len(states) > 5 else ""
    return f"the smoothed estimate lies outside the bounds in state {names}{more}"
