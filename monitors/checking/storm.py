"""The Storm engine, through stormpy 2, for all PCTL properties and exact fractions.

Storm receives the chain as a matrix, so that each state keeps its number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.errors import (
    InvalidModel,
    InvalidProperty,
    MissingDependency,
)
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.checking.reaching import Mask


def ask_storm(
    chain: Chain, formula: str, labels: Mapping[str, Mask], *, exact: bool = False
) -> NDArray[Any]:
    """Asks Storm about a formula; returns doubles, Fractions or Booleans by state.

    Storm solves linear equations by elimination here, because its default method
    iterates and stops with errors of up to 1e-6 on chains learned from driving.

    Raises:
        MissingDependency: stormpy 2 is not installed.
        InvalidProperty: Storm rejects the formula, or would answer it wrongly.
        InvalidModel: `exact` is set, but the chain's probabilities are rounded.
    """
    try:
        import stormpy
        from stormpy import developer, environments
    except ImportError:
        what = "--exact" if exact else "a property other than P [ F, G, X or U ]"
        raise MissingDependency(what, "storm") from None
    if re.search(r"U (\[ (?!0 ,)|>|=)", formula):
        raise InvalidProperty(
            "Storm computes wrong results for U with a lower time bound",
            mend="use U<=k or F[j,k]",
        )
    # Storm logs to standard output; errors are also raised as exceptions.
    developer.set_log_level(developer.LogLevel.OFF)
    environment: Any = environments.exact()
    elimination = environments.EquationSolverType.ELIMINATION
    environment.solver().set_linear_equation_solver_type(elimination)
    model = _model(chain, labels, exact)
    try:
        result = stormpy.model_checking(
            model, stormpy.parse_property(formula), environment=environment
        )
    except (RuntimeError, stormpy.exceptions.StormError) as error:
        lines = re.sub(r"^\w+Exception: ", "", str(error)).splitlines()
        raise InvalidProperty(
            f"Storm rejects the property: {' '.join(lines):.200}"
        ) from None
    if hasattr(result, "get_truth_values_vector"):
        held = set(result.get_truth_values_vector())
        return np.array([i in held for i in range(chain.n)])
    values = [result.get_value(i) for i in range(chain.n)]
    return fraction_array(values) if exact else np.array(values, dtype=np.float64)


def _model(chain: Chain, labels: Mapping[str, Mask], exact: bool) -> Any:
    import stormpy
    from stormpy import datastructures, models

    number: Any = stormpy.Rational if exact else float
    rows: list[Any] = (
        rational_rows(chain) if exact else [chain.row(i) for i in range(chain.n)]
    )
    matrix = datastructures.SparseMatrixBuilder[number](
        chain.n, chain.n, chain.transitions
    )
    for i, row in enumerate(rows):
        for j, p in row.items():
            matrix.add_next_value(i, j, number(p))
    labelling = models.StateLabeling(chain.n)
    for label, mask in labels.items():
        labelling.add_label(label)
        states = np.flatnonzero(mask).tolist()
        labelling.set_states(label, datastructures.BitVector(chain.n, states))
    parts = models.SparseModelComponents[number](
        transition_matrix=matrix.build(), state_labeling=labelling
    )
    return models.SparseDtmc[number](parts)


def rational_rows(chain: Chain) -> list[dict[int, Fraction]]:
    """Returns the rows as fractions; a double becomes the fraction of its printed
    decimal.
    """
    rows = list[dict[int, Fraction]]()
    for i in range(chain.n):
        row = {j: Fraction(text) for j, text in chain.written_row(i)}
        if sum(row.values()) != 1:
            raise InvalidModel(
                "the probabilities are rounded: the row of state "
                f"{chain.states[i]!r} sums to {float(sum(row.values()))!r}, not "
                "exactly to 1",
                mend="write the probabilities as fractions such as 1/3",
            )
        rows.append(row)
    return rows


def fraction_array(values: list[Any]) -> NDArray[Any]:
    """Returns an array of Fractions from Storm's rationals."""
    array = np.empty(len(values), dtype=object)
    # Converted through decimals, because Python's own conversion is limited to 4300
    # digits.
    array[:] = [
        Fraction(*(int(Decimal(str(n))) for n in (value.numerator, value.denominator)))
        for value in values
    ]
    return array


def fraction_text(value: Fraction) -> str:
    """Returns the fraction as text, even beyond Python's own limit of 4300 digits."""
    top, bottom = (format(Decimal(n), "f") for n in value.as_integer_ratio())
    return top if bottom == "1" else f"{top}/{bottom}"
