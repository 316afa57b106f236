"""Several models for one guard: which law is watched by which."""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidInput, InvalidModel
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.risk.evidence import abstraction_of, compile_for


def parts_of(text: str, abstraction: Abstraction | None) -> list[Law]:
    """The laws that a name or formula stands for, each with a monitor of its own."""
    vocabulary = None if abstraction is None else abstraction.vocabulary
    laws = find_laws(text, vocabulary=vocabulary)
    return [part for law in laws for part in law.parts or (law,)]


def laws_of(model: Model) -> list[Law]:
    """The laws that a model was learned for, each part by itself."""
    abstraction = abstraction_of(model)
    return [law for text in model.laws for law in parts_of(text, abstraction)]


def in_words_of(model: Model, law: str) -> str:
    """A law by the name that the model itself gives it, or as it was asked for."""
    own = (text for text in model.laws if text.partition(" := ")[0] == law)
    return next(own, law)


def dealt(models: Sequence[Model], laws: Sequence[Law]) -> list[list[Law]]:
    """Of each model the laws that are watched by it.

    A law is watched by the model that was learned for it; one for which none was, by
    the first whose states decide it.
    """
    if len(models) == 1:
        return [list(laws)]
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
        automaton = compile_for(law.formula, abstraction, model.period_s)
        for proposition in automaton.propositions:
            abstraction.decides(proposition)
    except InvalidInput:
        return False
    return True


def model_for(models: Sequence[Model], law: str | None, source: str) -> Model:
    """One of several models: the only one, or that of a law.

    Raises:
        InvalidModel: There are several, and no law says which; or none is for it.
    """
    if len(models) == 1:
        return models[0]
    names = [{law.name for law in laws_of(m)} | set(m.laws) for m in models]
    found = [m for m, known in zip(models, names, strict=True) if law in known]
    if found:
        return found[0]
    told = "; ".join(", ".join(law.name for law in laws_of(m)) for m in models)
    raise InvalidModel(
        f"it holds {len(models)} models, each of its own laws: {told}",
        source=source,
        mend="say of which: --of LAW",
    )
