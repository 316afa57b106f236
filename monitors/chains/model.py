"""The model: a chain with the counts and facts behind it, and functions to load it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.abstractions.abstraction import Abstraction, from_expressions
from forewarn.abstractions.arguments import checked
from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.vocabularies.vocabulary import Vocabulary
from forewarn.monitors.chains.chain import Chain


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each allowed transition was seen; the sparsity pattern is the support.

    Row i lists every allowed successor of state i, including those never seen. An empty
    row means that the state has no successors and is absorbing.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    seen: NDArray[np.int64]

    @property
    def n(self) -> int:
        return len(self.indptr) - 1

    @property
    def visits(self) -> NDArray[np.int64]:
        """The number of observed transitions out of each state."""
        total = np.concatenate(([0], np.cumsum(self.seen)))
        return np.asarray(np.diff(total[self.indptr]), dtype=np.int64)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of successors that each state may have."""
        return np.diff(self.indptr)

    def row(self, state: int) -> dict[int, int]:
        at = slice(self.indptr[state], self.indptr[state + 1])
        return dict(zip(self.indices[at].tolist(), self.seen[at].tolist(), strict=True))

    def support(self, state: int) -> list[int]:
        """Returns the successors that a state may have, ascending."""
        found: list[int] = self.indices[
            self.indptr[state] : self.indptr[state + 1]
        ].tolist()
        return found

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[int, int]]) -> Counts:
        ordered = [sorted(row.items()) for row in rows]
        pairs = [pair for row in ordered for pair in row]
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        lengths = [len(row) for row in ordered]
        indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        return cls(indptr.astype(np.int64), table[:, 0].copy(), table[:, 1].copy())


@checked
@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A chain with the counts, smoothing and training facts from which it was learned.

    Args:
        chain: The chain, whose rows follow from counts, support and alpha.
        counts: The transition counts; None for a published chain.
        unvisited: States that were never left in training, so their rows are uniform.
        starts: The number of traces that started in each state.
        abstraction: The abstraction as a dictionary, if the states are its bit vectors.
        alpha: The pseudo-count of every allowed successor.
        support: Which successors are allowed: observed, valid, all or declared.
        end: "absorb" if the end of a trace is counted as a transition to END, "ignore"
            if the ends of traces are not counted.
        period_s: The time between two states, in seconds.
        laws: The texts of the laws that the model was learned for.
        training: Facts about the training traces: names, digests, frames, figures.
        likely: For each law, by its text, the likely intervals of its risks (see
            `risk.calibration`).
        first_visits: For each law, by its text, the outcomes of the runs' first visits
            (see `risk.first_visits`).
    """

    chain: Chain
    counts: Counts | None = None
    unvisited: tuple[int, ...] = ()
    starts: Mapping[int, int] = field(default_factory=dict)
    abstraction: Mapping[str, Any] | None = None
    alpha: Fraction | None = None
    support: str = "observed"
    end: str = "ignore"
    period_s: float | None = None
    laws: tuple[str, ...] = ()
    training: Mapping[str, Any] = field(default_factory=dict)
    likely: Mapping[str, Any] = field(default_factory=dict)
    first_visits: Mapping[str, Any] = field(default_factory=dict)

    @property
    def visits(self) -> NDArray[np.int64] | None:
        """The number of observed transitions out of each state, if the model has
        counts.
        """
        return None if self.counts is None else self.counts.visits

    def known(self, abstraction: Abstraction) -> dict[int, int]:
        """Maps the bits of each state that was left at least once in training to its
        number.
        """
        visits = self.visits
        return {
            abstraction.bits(name): i
            for name, i in self.chain.number.items()
            if i != self.chain.end and (visits is None or visits[i] > 0)
        }


def smoothed_chain(
    states: Sequence[str],
    counts: Counts,
    alpha: Fraction,
    **facts: Any,
) -> tuple[Chain, tuple[int, ...]]:
    """Returns the chain that follows from counts and a pseudo-count, and the states
    that were never visited.

    With k allowed successors and n visits, p = (c + alpha) / (n + alpha k). A row
    without visits is uniform over its support; an empty row is absorbing.
    """
    if alpha < 0:
        raise InvalidModel(f"alpha is {alpha}, but must not be negative")
    top, bottom = alpha.numerator, alpha.denominator
    visits, sizes = counts.visits, counts.sizes
    rows: dict[int, dict[int, float | Fraction]] = {}
    unvisited: list[int] = []
    for state in np.flatnonzero(sizes).tolist():
        n, k = int(visits[state]), int(sizes[state])
        row = counts.row(state)
        if n == 0:
            rows[state] = {j: Fraction(1, k) for j in row}
            if list(row) != [state]:
                unvisited.append(state)
            continue
        whole = n * bottom + k * top
        rows[state] = {j: Fraction(c * bottom + top, whole) for j, c in row.items()}
    return Chain.from_rows(states, rows, **facts), tuple(unvisited)


@checked
def load_models(path: Path | str) -> tuple[Model, ...]:
    """Reads a file that contains one model or chain in any supported format, or several
    models, each for its own laws.
    """
    from forewarn.monitors.chains.formats.files import read_models

    return read_models(Path(path))


@checked
def load_model(path: Path | str) -> Model:
    """Reads a model or chain in any supported format, detected by its content."""
    models = load_models(path)
    if len(models) > 1:
        raise InvalidModel(
            f"the file contains {len(models)} models, each for its own laws",
            source=str(path),
            mend="choose one of the models that `load_models` returns",
        )
    return models[0]


def refuse_other(
    model: Model,
    source: str,
    *,
    scenario: str | None = None,
    vocabulary: str | None = None,
    period_s: float | None = None,
    tolerance: float = 1e-9,
) -> None:
    """Raises an error if a model does not fit the system that it is to guard.

    Facts that are missing on either side are not compared.

    Args:
        model: The model.
        source: The model's file, for error messages.
        scenario: The scenario that the system runs.
        vocabulary: The name of the vocabulary of the system's frames.
        period_s: The time between two frames of the system, in seconds.
        tolerance: The allowed relative difference in period.
    """
    found = _differences(model, scenario, vocabulary, period_s, tolerance)
    if differs := "; ".join(found):
        raise InvalidModel(
            f"the model does not match the guarded system: {differs}",
            source=source,
            mend="use a model learned with these settings, or add --accept-model",
        )


def trained_on(model: Model) -> frozenset[str]:
    """Returns the scenarios whose runs were used to learn a model or to tune its
    policy.
    """
    facts = model.training
    entries = [*facts.get("files", ()), *facts.get("set_aside", ())]
    return frozenset(entry["scenario"] for entry in entries if entry.get("scenario"))


def has_other_predicates(model: Model, scenario: str, current: Abstraction) -> bool:
    """Whether the predicates of a scenario were changed after the model was learned on
    its runs.

    Predicates that `learn` searched for differ on purpose and do not count.
    """
    searched = "abstraction" in model.training
    if searched or not model.abstraction or scenario not in trained_on(model):
        return False
    content = dict(model.abstraction)
    known = Abstraction.from_dict(content, "the model", current.vocabulary)
    return known.fingerprint() != current.fingerprint()


def _differences(
    model: Model,
    scenario: str | None,
    vocabulary: str | None,
    period_s: float | None,
    tolerance: float,
) -> Iterator[str]:
    names = trained_on(model)
    if scenario and names and scenario not in names:
        yield (
            f"it was learned on {', '.join(sorted(names))}, but the scenario is "
            f"{scenario}"
        )
    content = dict(model.abstraction or {})
    abstraction = Abstraction.from_dict(content, "the model") if content else None
    speaks = abstraction.vocabulary if abstraction is not None else None
    if vocabulary and speaks is not None and speaks.name != vocabulary:
        yield f"its vocabulary is {speaks.name}, but the source's is {vocabulary}"
    latched = abstraction is not None and abstraction.period_s is not None
    apart_s = model.period_s or (abstraction.period_s if abstraction else None)
    if (
        not period_s
        or not apart_s
        or math.isclose(apart_s, period_s, rel_tol=tolerance)
    ):
        return
    # Latched predicates also cover the frames between two states.
    if apart_s < period_s or not latched:
        yield (
            f"its states are {apart_s:g} s apart, but the source's frames are "
            f"{period_s:g} s apart"
        )


def riskless(vocabulary: Vocabulary | None, period_s: float) -> Model:
    """Returns a model without laws, whose single state represents every frame."""
    abstraction = from_expressions(
        ["true"], vocabulary=vocabulary, name="no risk", period_s=period_s
    )
    chain = Chain.from_rows(["1"], {0: {0: Fraction(1)}})
    return Model(chain, abstraction=abstraction.as_dict(), period_s=period_s)


def is_riskless(model: Model) -> bool:
    """Whether a model has a single state and no law, and thus no risk."""
    return len(model.chain.states) == 1 and not model.laws
