"""Answers properties on a chain, for every state at once.

Every path operator comes down to `X` and `U`: the others are their duals. What the
graph settles (never, surely) is settled there; an engine computes the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.expression import tree
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking import graphs
from forewarn.monitors.checking.builtin import Builtin
from forewarn.monitors.checking.engines import Engine, Until, Values
from forewarn.monitors.checking.exact import Exact
from forewarn.monitors.checking.graphs import Graph, Mask
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.language.properties import (
    Compare,
    Conditional,
    Constant,
    Junction,
    Name,
    Not,
    Probability,
    Quantified,
    Relation,
    StateFormula,
    Temporal,
    is_numeric,
    opposite,
)
from forewarn.monitors.checking.storm import Storm

DOUBTFUL = 1e-9
"""How near to its limit a rounded probability is compared again, exactly."""

_RELATIONS: dict[Relation, Callable[[Any, Any], Any]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answer in every state: probabilities, or whether the formula holds.

    Args:
        values: Doubles for `P=?`, else Booleans.
        exact: The same as fractions, where they were asked for.
        warnings: What a reader of the numbers should know.
    """

    values: NDArray[np.float64] | Mask
    exact: tuple[Fraction, ...] | None = None
    warnings: tuple[str, ...] = ()


def make_engine(name: str, chain: Chain, *, exact: bool = False) -> Engine:
    """The engine of that name: `builtin` or `storm`."""
    if name == "storm":
        return Storm(chain, exact=exact)
    return Exact(chain) if exact else Builtin(chain)


def check(formula: StateFormula, labelling: Labelling, engine: Engine) -> Answer:
    """Answers a property in every state of the labelling's chain."""
    evaluator = Evaluator(labelling, engine)
    if isinstance(formula, Probability) and is_numeric(formula):
        values, _ = evaluator.probability(formula.path)
        warnings = tuple(evaluator.warnings)
        if engine.exact:
            fractions = tuple(map(Fraction, values))
            return Answer(np.array([float(f) for f in fractions]), fractions, warnings)
        return Answer(values.astype(np.float64), None, warnings)
    return Answer(evaluator.states(formula), None, tuple(evaluator.warnings))


class Evaluator:
    """Answers one property after the other, with one engine.

    `warnings` collects what a reader of the answers should know.
    """

    def __init__(self, labelling: Labelling, engine: Engine) -> None:
        self._labelling = labelling
        self._chain = labelling.chain
        self._graph = Graph.of(labelling.chain)
        self._engine = engine
        self._named: dict[str, Mask] = {}
        self.warnings: list[str] = []

    def states(self, formula: StateFormula) -> Mask:
        """The states in which a formula holds."""
        match formula:
            case Constant(value):
                return np.full(self._chain.n, value)
            case Name(name):
                if name not in self._named:
                    meaning = self._labelling.meaning(name, formula.column)
                    if not isinstance(meaning, np.ndarray):
                        meaning = self.states(meaning)
                    self._named[name] = meaning
                return self._named[name]
            case Compare():
                return self._labelling.compare(formula)
            case Not(inner):
                return ~self.states(inner)
            case Junction(sign, parts):
                join = np.logical_and if sign == "&" else np.logical_or
                return reduce(join, map(self.states, parts))
            case Conditional(sign, left, right):
                if sign == "=>":
                    return ~self.states(left) | self.states(right)
                return ~(self.states(left) ^ self.states(right))
            case Quantified(quantifier, path):
                return self._quantified(quantifier == "A", path)
            case Probability():
                return self._compared(formula)

    def proposition(self, expression: tree.Expression) -> Mask:
        """The states in which a law's proposition holds.

        Names mean what they mean in a property; the abstraction decides the rest.
        """
        known = self._labelling.knows
        inside = [
            node.name for node in expression.walk() if isinstance(node, tree.Name)
        ]
        if not any(map(known, inside)):
            return self._labelling.decide(expression)
        match expression:
            case tree.Name(name):
                return self.states(Name(name))
            case tree.Not(operand):
                return ~self.proposition(operand)
            case tree.And(parts):
                return reduce(np.logical_and, map(self.proposition, parts))
            case tree.Or(parts):
                return reduce(np.logical_or, map(self.proposition, parts))
            case tree.Implies(left, right):
                return ~self.proposition(left) | self.proposition(right)
            case _:
                return self._labelling.decide(expression)

    # Some or every path

    def _quantified(self, every: bool, path: Temporal) -> Mask:
        graph = self._graph
        if path.operator in "GWR":
            return ~self._quantified(not every, opposite(path))
        goal = self.states(path.right)
        if path.operator == "X":
            return graph.every_successor(goal) if every else graph.some_successor(goal)
        hold, bound = self.states(path.left), path.bound
        if bound.high is not None:
            steps = bound.high - bound.low
            found = graphs.within(graph, every, hold, goal, steps)
        elif every:
            found = graph.must_reach(goal, hold)
        else:
            found = graph.may_reach(goal, hold)
        return graphs.after(graph, every, hold, found, bound.low)

    # How likely

    def probability(self, path: Temporal) -> tuple[Values, Mask]:
        """The probability of a path formula, and where the graph alone settles it."""
        if path.operator in "GWR":
            values, settled = self.probability(opposite(path))
            return 1 - values, settled
        goal = self.states(path.right)
        if path.operator == "X":
            possible = self._graph.some_successor(goal)
            surely = self._graph.every_successor(goal)
            values = self._engine.next(goal)
        else:
            question = self._until(path, goal)
            values = self._engine.until(question)
            hold, low = question.hold, question.low
            possible = graphs.after(self._graph, False, hold, ~question.never, low)
            surely = graphs.after(self._graph, True, hold, question.surely, low)
        values[~possible], values[surely] = 0, 1
        return values, surely | ~possible

    def _until(self, path: Temporal, goal: Mask) -> Until:
        graph, hold = self._graph, self.states(path.left)
        low, high = path.bound.low, path.bound.high
        if high is None:
            possible = graph.may_reach(goal, hold)
            surely = graph.surely_reach(goal, hold)
        else:
            possible = graphs.within(graph, False, hold, goal, high - low)
            surely = graphs.within(graph, True, hold, goal, high - low)
        return Until(hold, goal, low, high, ~possible, surely)

    def _compared(self, formula: Probability) -> Mask:
        values, settled = self.probability(formula.path)
        relation = formula.relation or "<"
        holds = _RELATIONS[relation]
        limit = formula.limit
        if self._engine.exact:
            return np.array([bool(holds(value, limit)) for value in values])
        found: Mask = holds(values, float(limit))
        near = np.abs(values - float(limit)) <= DOUBTFUL
        if near.any():
            exact = self._exactly(formula.path, near & ~settled)
            for state in np.flatnonzero(near).tolist():
                value = Fraction(values[state]) if settled[state] else exact[state]
                found[state] = holds(value, limit)
        return found

    def _exactly(self, path: Temporal, doubtful: Mask) -> Values:
        """The probabilities again, where rounding could decide a comparison."""
        values, _ = self.probability(path)
        if not doubtful.any():
            return values
        try:
            again = Evaluator(self._labelling, Exact(self._chain))
            again._named = self._named
            return again.probability(path)[0]
        except InvalidInput as error:
            names = [self._chain.states[i] for i in np.flatnonzero(doubtful)[:5]]
            self.warnings.append(
                f"in state {', '.join(names)} a probability is within {DOUBTFUL:g} of "
                f"its limit, and rounding decides ({error.problem})"
            )
            return np.array([Fraction(value) for value in values], dtype=object)
