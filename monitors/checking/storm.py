"""Storm as an engine, through stormpy 2: the cross-check of the built-in one.

The chain is handed over as a matrix, so that a state keeps its number. Every next and
every until is a property of its own on the labels `hold` and `goal`.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from forewarn.abstractions.errors import InvalidProperty, MissingDependency
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.engines import Until, Values
from forewarn.monitors.checking.exact import fraction_array, rational_rows
from forewarn.monitors.checking.graphs import Mask


class Storm:
    """Answers in doubles, or in fractions.

    Linear equations are solved by elimination: Storm's default iterates, and stops up
    to 1e-6 short of the answer on chains learned from driving.

    Raises:
        MissingDependency: When stormpy 2 is not installed.
        InvalidModel: When `exact`, and the chain's probabilities are rounded.
    """

    name = "storm"

    def __init__(self, chain: Chain, *, exact: bool = False) -> None:
        try:
            import stormpy
            from stormpy import datastructures, developer, environments, models
        except ImportError:
            raise MissingDependency("--engine storm", "storm") from None
        # Its log goes to standard output; what matters comes as an exception too.
        developer.set_log_level(developer.LogLevel.OFF)
        self.exact = exact
        self._storm: Any = stormpy
        self._bits: Any = datastructures.BitVector
        self._n = chain.n
        number: Any = stormpy.Rational if exact else float
        exact_rows = rational_rows(chain) if exact else None
        matrix = datastructures.SparseMatrixBuilder[number](
            chain.n, chain.n, chain.transitions
        )
        for i in range(chain.n):
            row = exact_rows[i] if exact_rows else chain.row(i)
            for j, p in row.items():
                matrix.add_next_value(i, j, number(p))
        labels = models.StateLabeling(chain.n)
        labels.add_label("hold")
        labels.add_label("goal")
        parts = models.SparseModelComponents[number](
            transition_matrix=matrix.build(), state_labeling=labels
        )
        self._model: Any = models.SparseDtmc[number](parts)
        self._environment: Any = environments.exact()
        elimination = environments.EquationSolverType.ELIMINATION
        self._environment.solver().set_linear_equation_solver_type(elimination)

    def next(self, target: Mask) -> Values:
        return self._ask('P=? [X "goal"]', np.zeros_like(target), target)

    def until(self, question: Until) -> Values:
        low, high = question.low, question.high
        if low and high is None:
            raise InvalidProperty(
                "Storm has no horizon from below alone, such as F>=3",
                mend="use --engine builtin",
            )
        if low and (question.goal & ~question.hold).any():
            # stormpy 2.0.0 lets a path wait where only the right side of U holds.
            raise InvalidProperty(
                "Storm is wrong about an until that has a horizon from below, where its"
                " right side holds and its left side does not",
                mend="use --engine builtin",
            )
        bound = "" if high is None else f"[{low},{high}]"
        formula = f'P=? ["hold" U{bound} "goal"]'
        return self._ask(formula, question.hold, question.goal)

    def _ask(self, formula: str, hold: Mask, goal: Mask) -> Values:
        labels = self._model.labeling
        for label, mask in (("hold", hold), ("goal", goal)):
            states = np.flatnonzero(mask).tolist()
            labels.set_states(label, self._bits(self._n, states))
        asked = self._storm.parse_property(formula)
        result = self._storm.model_checking(
            self._model, asked, environment=self._environment
        )
        values = map(result.get_value, range(self._n))
        if self.exact:
            return fraction_array(map(_fraction, values))
        return np.fromiter(values, np.float64, self._n)


def _fraction(value: Any) -> Fraction:
    # By way of decimals: Python's own conversion ends at 4300 digits.
    top, bottom = (int(Decimal(str(n))) for n in (value.numerator, value.denominator))
    return Fraction(top, bottom)
