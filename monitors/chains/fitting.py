"""Whether a model is of what is to be guarded: its scenario, vocabulary and period."""

from __future__ import annotations

import math
from collections.abc import Iterator

from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.states.abstraction import Abstraction
from forewarn.monitors.chains.model import Model


def refuse_other(
    model: Model,
    source: str,
    *,
    scenario: str | None = None,
    vocabulary: str | None = None,
    period_s: float | None = None,
    tolerance: float = 1e-9,
) -> None:
    """Raises if a model is of something else than what is to be guarded.

    What is not said on either side differs from nothing.

    Args:
        model: The model.
        source: Its file, for errors.
        scenario: The name of what is to be guarded.
        vocabulary: That of its frames, by name.
        period_s: The time between two of its frames.
        tolerance: By which share of it that may be off.
    """
    found = _differences(model, scenario, vocabulary, period_s, tolerance)
    if differs := "; ".join(found):
        raise InvalidModel(
            f"the model is of something else: {differs}",
            source=source,
            mend="give one that was learned there, or insist with --accept-model",
        )


def trained_on(model: Model) -> frozenset[str]:
    """The names of the scenarios whose runs a model, or its policy, was made of."""
    facts = model.training
    entries = [*facts.get("files", ()), *facts.get("set_aside", ())]
    return frozenset(entry["scenario"] for entry in entries if entry.get("scenario"))


def _differences(
    model: Model,
    scenario: str | None,
    vocabulary: str | None,
    period_s: float | None,
    tolerance: float,
) -> Iterator[str]:
    names = trained_on(model)
    if scenario and names and scenario not in names:
        yield f"it was learned on {', '.join(sorted(names))}, and this is {scenario}"
    content = dict(model.abstraction or {})
    abstraction = Abstraction.from_dict(content, "the model") if content else None
    speaks = abstraction.vocabulary if abstraction is not None else None
    if vocabulary and speaks is not None and speaks.name != vocabulary:
        yield f"its vocabulary is {speaks.name}, and here it is {vocabulary}"
    latched = abstraction is not None and abstraction.period_s is not None
    apart_s = model.period_s or (abstraction.period_s if abstraction else None)
    if (
        not period_s
        or not apart_s
        or math.isclose(apart_s, period_s, rel_tol=tolerance)
    ):
        return
    # What is latched keeps all that frames in between show.
    if apart_s < period_s or not latched:
        yield f"its states are {apart_s:g} s apart, and the frames here {period_s:g} s"
