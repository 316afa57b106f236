"""The risk of breaking each law, as a guard computes it, in every state of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from forewarn.monitors.chains.model import Model
from forewarn.monitors.checking.labelling import Labelling
from forewarn.monitors.checking.law_checking import compiled_on, laws_on
from forewarn.monitors.checking.properties import define
from forewarn.monitors.risk.calibration import likely_for
from forewarn.monitors.risk.evidence import (
    RiskRow,
    abstraction_of,
    assess,
    in_words_of,
    risk_rows,
)


def risks_on(
    model: Model,
    names: Sequence[str],
    definitions: Sequence[str],
    steps: int,
    delta: float,
) -> Iterator[tuple[str, list[RiskRow]]]:
    """Yields each law's name and risks; by default, of all laws that the model was
    learned for.
    """
    abstraction = abstraction_of(model)
    labelling = Labelling(model.chain, abstraction)
    for definition in definitions:
        define(labelling, definition)
    broken = model.training.get("violations", {})
    wanted = [in_words_of(model, name) for name in names] or model.laws
    for law in [law for text in wanted for law in laws_on(labelling, text)]:
        seen = None
        if (counted := broken.get(repr(law.formula))) is not None:
            seen = np.array([counted.get(s, 0) for s in model.chain.states])
        automaton = compiled_on(labelling, law, model.period_s)
        risks = assess(
            model,
            automaton,
            steps,
            delta=delta,
            law=repr(law.formula),
            truth=labelling.proposition,
        )
        horizon_s = steps * (model.period_s or 0.0)
        likely = likely_for(
            model.likely, repr(law.formula), horizon_s, automaton, risks.letters
        )
        yield law.name, risk_rows(risks, abstraction, likely, model.visits, seen)
