"""Connects laws with models: assigns laws to models, and computes risks and
evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import (
    InvalidExpression,
    InvalidInput,
    InvalidModel,
    naming,
    near_miss,
    suggest,
)
from forewarn.abstractions.expression import Expression
from forewarn.abstractions.expression.vector import evaluate
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.intervals import model_intervals
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.automaton import (
    MAX_LETTERS,
    Automaton,
    compile_law,
)
from forewarn.monitors.laws.formula import Formula
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.laws.progression import normalise
from forewarn.monitors.risk.calibration import Likely
from forewarn.monitors.risk.first_visits import visits_for
from forewarn.monitors.risk.product import Bools, Ints
from forewarn.monitors.risk.tables import RiskTable, solve_risk

Truth = Callable[[Expression], Bools]
"""Returns the states in which a proposition holds, as a mask over a chain's states."""


def truth_in_sets(sets: Mapping[str, Iterable[int]], n: int) -> Truth:
    """Returns the truth of propositions whose names refer to sets of states, such as
    labels.
    """
    columns: dict[str, Bools] = {}
    for name, group in sets.items():
        columns[name] = np.zeros(n, dtype=bool)
        columns[name][list(group)] = True

    def truth(proposition: Expression) -> Bools:
        try:
            return np.broadcast_to(evaluate(proposition, columns), n)
        except KeyError as error:
            (name,) = error.args
            raise InvalidExpression(
                f"{name!r} is not defined on the states of this chain",
                mend=near_miss(name, columns) or f"add --define '{name}=…'",
            ) from None

    return truth


def truth_in_abstraction(chain: Chain, abstraction: Abstraction) -> Truth:
    """Returns the truth of propositions whose value follows from a state's predicates;
    false in END.
    """

    def truth(proposition: Expression) -> Bools:
        decide = abstraction.decides(proposition)
        held = np.zeros(chain.n, dtype=bool)
        for state, name in enumerate(chain.states):
            if state != chain.end:
                held[state] = decide(abstraction.bits(name))
        return held

    return truth


def compile_for(
    law: Formula,
    abstraction: Abstraction | None,
    period_s: float | None,
    **options: Any,
) -> Automaton:
    """Compiles a law to a monitor over the states of an abstraction.

    Latched predicates refer to different moments of a tick, so propositions that
    exclude each other at any one moment may both hold in a state.

    Args:
        law: The law.
        abstraction: The abstraction of the states, if there is one.
        period_s: The time between two states, in seconds.
        options: Further arguments of `compile_law`.
    """
    if abstraction is not None:
        options.setdefault("vocabulary", abstraction.vocabulary)
        if any(predicate.latch != "last" for predicate in abstraction.predicates):
            propositions = normalise(law, period_s).propositions
            if 2 ** len(propositions) <= MAX_LETTERS:
                options.setdefault("letters", range(2 ** len(propositions)))
    return compile_law(law, period_s, **options)


def letters_of_states(chain: Chain, automaton: Automaton, truth: Truth) -> Ints:
    """Returns for each state of the chain the column of its letter in the automaton's
    tables.
    """
    masks = np.zeros(chain.n, dtype=np.int64)
    for bit, proposition in enumerate(automaton.propositions):
        masks |= truth(proposition).astype(np.int64) << bit
    columns = {mask: column for column, mask in enumerate(automaton.letters)}
    letters = np.zeros(chain.n, dtype=np.int64)
    for state, mask in enumerate(masks.tolist()):
        if mask in columns:
            letters[state] = columns[mask]
        elif state != chain.end:
            held = [
                repr(p) for i, p in enumerate(automaton.propositions) if mask >> i & 1
            ]
            raise InvalidModel(
                f"in state {chain.states[state]!r}, only these propositions hold: "
                f"{', '.join(held) or 'none'}; but the law was compiled assuming "
                "that this cannot happen"
            )
    return letters


def letters_by_predicates(
    chain: Chain, automaton: Automaton, abstraction: Abstraction
) -> Ints:
    """Returns the letters of the states, as they follow from the abstraction's
    predicates.
    """
    return letters_of_states(chain, automaton, truth_in_abstraction(chain, abstraction))


def count_violations(
    automaton: Automaton, letters: Ints, sequences: Iterable[Sequence[int]]
) -> Ints:
    """Returns the number of violations in each state, over sequences of states.

    The monitor restarts after each violation.
    """
    seen = [0] * len(letters)
    column, step = letters.tolist(), automaton.step.tolist()
    for sequence in sequences:
        monitor = automaton.initial
        for state in sequence:
            monitor = step[monitor][column[state]]
            if monitor == automaton.violated:
                seen[state] += 1
                monitor = automaton.initial
    return np.array(seen, dtype=np.int64)


def abstraction_of(
    model: Model, source: str = "the model's abstraction"
) -> Abstraction | None:
    """Returns the abstraction of the model's states, if it has one."""
    if model.abstraction is None:
        return None
    return Abstraction.from_dict(dict(model.abstraction), source)


def needed_abstraction(model: Model, source: str = "the model") -> Abstraction:
    """Returns the abstraction of a model; raises an error if the model has none."""
    found = abstraction_of(model, source)
    if found is None:
        raise InvalidModel(
            "the model has no abstraction, so its states cannot be computed from "
            "frames",
            source=source,
            mend="learn it from traces with --abstraction or --law",
        )
    return found


def assess(
    model: Model,
    automaton: Automaton,
    horizon_steps: int,
    *,
    delta: float = 0.05,
    law: str = "",
    truth: Truth | None = None,
) -> RiskTable:
    """Computes the risk table of a law, with bounds if the model has counts.

    Args:
        model: The model.
        automaton: The law, compiled with the model's period.
        horizon_steps: The horizon H, in steps.
        delta: The error probability of the bounds.
        law: The law's text, which is the key of its first visits in the model.
        truth: The states in which the law's propositions hold. By default, they follow
            from the predicates of the model's abstraction; without an abstraction,
            propositions are labels.
    """
    chain, abstraction = model.chain, abstraction_of(model)
    if truth is None:
        truth = (
            truth_in_sets(chain.labels, chain.n)
            if abstraction is None
            else truth_in_abstraction(chain, abstraction)
        )
    letters = letters_of_states(chain, automaton, truth)
    horizon_s = horizon_steps * (model.period_s or 0.0)
    return solve_risk(
        chain,
        letters,
        automaton,
        horizon_steps,
        None if model.counts is None else model_intervals(model, delta),
        first=visits_for(model, law, horizon_s, automaton, letters),
        delta=delta,
    )


@dataclass(frozen=True, slots=True)
class RiskAt:
    """The estimated risk in one state of the monitor, with bounds if known.

    `likely` is the likely interval of the calibrated risk; it is not a bound.
    """

    monitor: str
    risk: float
    low: float | None
    high: float | None
    likely: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class RiskRow:
    """The risk and the evidence in one state of the chain, for display.

    Args:
        state: The state's name.
        words: The predicates that hold in the state, if known.
        fresh: The risk if the monitor has read only this state.
        worst: The highest risk over the monitor states that can occur in this state,
            except `violated`.
        visits: The number of transitions out of the state in training.
        violations_seen: The number of observed violations in the state.
    """

    state: str
    words: tuple[str, ...] | None
    fresh: RiskAt
    worst: RiskAt
    visits: int | None
    violations_seen: int | None


def risk_rows(
    table: RiskTable,
    abstraction: Abstraction | None = None,
    likely: Likely | None = None,
    visits: Ints | None = None,
    violations_seen: Ints | None = None,
) -> list[RiskRow]:
    """Lists every state except END with its predicates, its risk and the evidence.

    Args:
        table: The risks.
        abstraction: The abstraction of the states, if there is one.
        likely: The likely intervals of the risks.
        visits: The number of transitions out of each state in training.
        violations_seen: The number of observed violations in each state.
    """
    automaton = table.automaton
    possible = table.consistent.copy()
    if automaton.violated >= 0:
        # The monitor can be in `violated` in almost any state, so `violated` is used
        # only if no other monitor state can occur.
        possible[automaton.violated] = False
        possible[automaton.violated] = ~possible.any(axis=0)
    worst = np.where(possible, table.point, -1.0).argmax(axis=0).tolist()
    rows = []
    for state, name in enumerate(table.states):
        if state == table.end:
            continue
        fresh = int(automaton.step[automaton.initial, table.letters[state]])
        rows.append(
            RiskRow(
                state=name,
                words=None
                if abstraction is None
                else abstraction.holding(abstraction.bits(name)),
                fresh=_risk_at(table, fresh, state, likely),
                worst=_risk_at(table, worst[state], state, likely),
                visits=_entry(visits, state),
                violations_seen=_entry(violations_seen, state),
            )
        )
    return rows


def _risk_at(
    table: RiskTable, monitor: int, state: int, likely: Likely | None
) -> RiskAt:
    low, high = table.bounds(monitor, state) or (None, None)
    name = table.automaton.names[monitor]
    ends = None
    if likely is not None:
        ends = float(likely.low[monitor, state]), float(likely.high[monitor, state])
    return RiskAt(name, table.lookup(monitor, state), low, high, ends)


def _entry(counts: Ints | None, state: int) -> int | None:
    return None if counts is None else int(counts[state])


def for_people(rows: Sequence[RiskRow]) -> tuple[list[str], list[list[str]]]:
    """Formats the rows as a table with a header, without empty columns."""
    head = ["state", "risk", "worst", "in", "visits", "broken", "true predicates"]
    body = []
    for row in rows:
        words = "" if row.words is None else " and ".join(row.words) or "none"
        seen = (
            "" if count is None else f"{count:,}"
            for count in (row.visits, row.violations_seen)
        )
        figures = (_figure(row.fresh), _figure(row.worst))
        body.append([row.state, *figures, row.worst.monitor, *seen, words])
    kept = [i for i in range(len(head)) if any(cells[i] for cells in body)]
    return [head[i] for i in kept], [[cells[i] for i in kept] for cells in body]


def _figure(at: RiskAt) -> str:
    if at.low is None or at.high is None:
        return f"{at.risk:.4f}"
    likely = ""
    if at.likely is not None:
        likely = f" likely {at.likely[0]:.3f} to {at.likely[1]:.3f}"
    return f"{at.risk:.4f} [{at.low:.4f}, {at.high:.4f}]{likely}"


def parts_of(text: str, abstraction: Abstraction | None) -> list[Law]:
    """Returns the laws with a name, or the law of a formula; parts of laws are
    separate.
    """
    vocabulary = None if abstraction is None else abstraction.vocabulary
    laws = find_laws(text, vocabulary=vocabulary)
    return [part for law in laws for part in law.parts or (law,)]


def laws_of(model: Model) -> list[Law]:
    """Returns the laws that a model was learned for; each part is a separate law."""
    abstraction = abstraction_of(model)
    return told_apart(law for text in model.laws for law in parts_of(text, abstraction))


def told_apart(laws: Iterable[Law]) -> list[Law]:
    """Returns the laws without duplicates.

    Raises:
        InvalidModel: Two different laws have the same name, so rules for this name
            would be ambiguous.
    """
    found: dict[str, Law] = {}
    for law in laws:
        if repr(found.setdefault(law.name, law).formula) != repr(law.formula):
            raise InvalidModel(
                f"two laws have the name {law.name}",
                mend="give each law its own name: 'NAME := FORMULA'",
            )
    return list(found.values())


def laws_named(model: Model, names: Sequence[str] = ()) -> list[Law]:
    """Returns the laws with these names (default: all of the model)."""
    abstraction = abstraction_of(model)
    vocabulary = None if abstraction is None else abstraction.vocabulary
    texts = names or model.laws
    return [law for text in texts for law in find_laws(text, vocabulary=vocabulary)]


def in_words_of(model: Model, law: str) -> str:
    """Returns the text of the model's law with this name; the name itself if the model
    has none.
    """
    own = (text for text in model.laws if text.partition(" := ")[0] == law)
    return next(own, law)


def dealt(models: Sequence[Model], laws: Sequence[Law]) -> list[list[Law]]:
    """Assigns laws to models; returns the laws of each model.

    A law belongs to the model that was learned for it, or else to the first model whose
    predicates suffice to evaluate it.
    """
    laws = told_apart(laws)
    if len(models) == 1:
        return [laws]
    found: list[list[Law]] = [[] for _ in models]
    names = [{law.name for law in laws_of(model)} for model in models]
    for law in laws:
        own = {law.name, *(part.name for part in law.parts)}
        knowing = (i for i, known in enumerate(names) if own & known)
        deciding = (i for i, model in enumerate(models) if _decides(model, law))
        home = next(knowing, None)
        found[next(deciding, 0) if home is None else home].append(law)
    return found


def _decides(model: Model, law: Law) -> bool:
    abstraction = abstraction_of(model)
    if abstraction is None:
        return False
    try:
        refuse_undecided(abstraction, [law], model.period_s)
    except InvalidInput:
        return False
    return True


def refuse_undecided(
    abstraction: Abstraction, laws: Iterable[Law], period_s: float | None = None
) -> None:
    """Rejects laws that cannot be evaluated from the states of an abstraction.

    Raises:
        InvalidInput: A law cannot be evaluated; the message names it and the missing
            predicate.
    """
    for law in laws:
        with naming("", f"the law {law.name}"):
            clock_s = period_s or abstraction.period_s
            automaton = compile_for(law.formula, abstraction, clock_s)
            for proposition in automaton.propositions:
                abstraction.decides(proposition)


def refuse_undecided_by(models: Sequence[Model], laws: Iterable[Law]) -> None:
    """Rejects laws that cannot be evaluated with any of these models."""
    for law in laws:
        if not any(_decides(model, law) for model in models):
            raise InvalidModel(
                f"the law {law.name} cannot be evaluated with the model's predicates",
                mend="train a model for it with `forewarn train SCENARIO --law …`, or "
                "choose other laws with --law",
            )


def model_for(
    models: Sequence[Model], law: str | None, source: str, of: str | None = None
) -> Model:
    """Chooses a model: the only one, or the model that was learned for a law.

    Args:
        models: The models of the file.
        law: The law that the model is asked about.
        source: The name of the file, for error messages.
        of: The law with which the user chooses the model, if any.

    Raises:
        InvalidModel: There are several models, and none was learned for the law, or the
            model that the user chooses does not exist.
    """
    names = [{law.name for law in laws_of(m)} | set(m.laws) for m in models]
    if of is not None and of not in set().union(*names):
        known = sorted(law.name for m in models for law in laws_of(m))
        problem = f"no model in the file is for the law {of!r:.60}"
        raise InvalidModel(problem, source=source, mend=suggest(of, known))
    if len(models) == 1:
        return models[0]
    law = of or law
    found = [m for m, known in zip(models, names, strict=True) if law in known]
    if found:
        told_apart(own for m in found for own in laws_of(m) if own.name == law)
        return found[0]
    told = "; ".join(", ".join(law.name for law in laws_of(m)) for m in models)
    raise InvalidModel(
        f"the file contains {len(models)} models, each for its own laws: {told}",
        source=source,
        mend="choose a model with --of LAW",
    )
