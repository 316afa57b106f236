"""Likely intervals of risks: how risks would vary with different training runs.

Whole runs are resampled with replacement. For each resample, the chain is learned and
its risks are calibrated again; the abstraction stays the same. The risk of each pair is
then varied by the error that such risks showed in held-out runs, because a risk that is
right on average need not be right in each state. The middle 95 % of the draws form the
likely interval of a risk. Runs are drawn, not transitions, because the transitions of
one run are dependent.

Every run is read only once; a resample only changes the weights of the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.errors import InvalidModel
from forewarn.monitors.chains.chain import Chain
from forewarn.monitors.chains.model import Counts, Model
from forewarn.monitors.evaluation.foretold import Foretold
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.risk.calibration import (
    Calibration,
    Likely,
    calibrated,
)
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_by_predicates,
)
from forewarn.monitors.risk.first_visits import monitor_digest
from forewarn.monitors.risk.product import Floats, Ints
from forewarn.monitors.risk.tables import guard_risk
from forewarn.monitors.trust.encoding import encode_trace
from forewarn.monitors.trust.hindsight import Found, Run

if TYPE_CHECKING:
    from scipy.sparse import csr_array

DRAWS = 200
LEVEL = 0.95
FEWEST_RUNS = 5
"""The minimum number of runs through a pair to estimate the error of the pair's
risk.
"""

_MOST = 0.99
_LEAST = 1e-4
"""The minimum distance of a beta distribution's mean from 0 and 1."""

_LEAST_OFF = 1e-3
"""Smaller errors cannot be distinguished from 0."""

Shown = Callable[[Iterable[int], str, int], Iterable[int]]


def likely_risks(
    model: Model,
    laws: Sequence[Law],
    horizon_s: float,
    runs: Sequence[Run],
    told: Mapping[str, Sequence[Foretold]],
    curves: Mapping[str, Calibration],
    draws: int = DRAWS,
    progress: Shown = lambda items, *_: items,
    counted: Found | None = None,
) -> dict[str, dict[str, Any]]:
    """Computes the likely intervals of a model's risks, keyed by the texts of laws.

    Args:
        model: The model.
        laws: The model's laws.
        horizon_s: The horizon H, in seconds.
        runs: The runs that the model was learned from.
        told: For each law, the runs used for its calibration curve, with uncalibrated
            risks.
        curves: The calibration curves.
        draws: The number of resamples.
        progress: Wraps an iterable to show progress.
        counted: The abstractions with which runs were counted; by default, the model's.
    """
    if model.abstraction is None or model.counts is None or model.period_s is None:
        raise InvalidModel(
            "`likely` intervals need a model with an abstraction, counts and a period"
        )
    abstraction = Abstraction.from_dict(dict(model.abstraction), "the model")
    random = np.random.default_rng(0)
    by = [(counted or Found(abstraction)).counting(i) for i in range(len(runs))]
    redrawn = _Redrawn(model, model.counts, _seen(model, abstraction, runs, by))
    heights = {law.name: _Heights.of(told[law.name], horizon_s) for law in laws}
    steps = round(horizon_s / model.period_s)
    read = []
    for law in laws:
        automaton = compile_for(law.formula, abstraction, model.period_s)
        letters = letters_by_predicates(model.chain, automaton, abstraction)
        read.append((automaton, letters))
    tables: list[list[Floats]] = [[] for _ in laws]
    for _ in progress(range(draws), "draws", draws):
        chain = redrawn(_draw(random, len(runs)))
        for law, (automaton, letters), kept in zip(laws, read, tables, strict=True):
            risks = guard_risk(chain, letters, automaton, steps)
            again = heights[law.name]
            curve = again.curve(risks, _draw(random, again.runs))
            kept.append(curve(risks).astype(np.float32))
    likely: dict[str, dict[str, Any]] = {}
    for law, (automaton, letters), kept in zip(laws, read, tables, strict=True):
        ends = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
        heights[law.name].move(kept, random)
        low, high = np.quantile(np.array(kept), ends, axis=0).astype(np.float64)
        likely[repr(law.formula)] = Likely(
            horizon_s, LEVEL, draws, curves[law.name],
            monitor_digest(automaton, letters), low, high,
        ).as_dict()  # fmt: skip
    return likely


def _draw(random: np.random.Generator, runs: int) -> Floats:
    """Resamples runs with replacement; returns how often each is drawn."""
    return np.bincount(random.integers(0, runs, runs), minlength=runs).astype(float)


def _seen(
    model: Model,
    abstraction: Abstraction,
    runs: Sequence[Run],
    apart: Sequence[Abstraction] = (),
) -> csr_array:
    """Returns how often each run took each transition of the model, by [run,
    transition].
    """
    from scipy.sparse import csr_array

    by = apart or [abstraction] * len(runs)
    chain, counts = model.chain, model.counts
    assert counts is not None  # noqa: S101
    number = {abstraction.bits(n): i for i, n in enumerate(chain.states)
              if i != chain.end}  # fmt: skip
    keys = _keys(counts.indptr, counts.indices)
    place: list[Ints] = []
    for run, counted in zip(runs, by, strict=True):
        states = [number[bits] for bits in encode_trace(run, counted).tolist()]
        if chain.end is not None:
            states.append(chain.end)
        path = np.array(states, np.int64)
        wanted = path[:-1] * counts.n + path[1:]
        at = np.searchsorted(keys, wanted)
        # A step over a gap was not counted, so the model may lack this transition.
        place.append(at[keys[np.minimum(at, len(keys) - 1)] == wanted])
    lengths = [len(each) for each in place]
    columns = np.concatenate(place)
    rows = np.repeat(np.arange(len(runs)), lengths)
    found = csr_array((np.ones(len(columns)), (rows, columns)), (len(runs), len(keys)))
    found.sum_duplicates()
    return found


def _keys(indptr: Ints, indices: Ints) -> Ints:
    n = len(indptr) - 1
    keys: Ints = np.repeat(np.arange(n), np.diff(indptr)) * n + indices
    return keys


class _Redrawn:
    """Creates the chains that would have been learned from resamples of the runs."""

    def __init__(self, model: Model, counts: Counts, seen: csr_array) -> None:
        chain = model.chain
        self._chain, self._counts, self._seen = chain, counts, seen.T.tocsr()
        self._alpha = float(model.alpha or 0)
        self._sources = np.repeat(np.arange(counts.n), counts.sizes)
        # A row that no run of a resample visits keeps the learned probabilities.
        self._learned = np.zeros(len(counts.indices))
        own = np.isin(_keys(counts.indptr, counts.indices),
                      _keys(chain.indptr, chain.indices))  # fmt: skip
        known = np.isin(_keys(chain.indptr, chain.indices),
                        _keys(counts.indptr, counts.indices))  # fmt: skip
        self._learned[own] = chain.data[known]

    def __call__(self, weight: Floats) -> Chain:
        seen = np.asarray(self._seen @ weight)
        n, sources = self._counts.n, self._sources
        visits = np.bincount(sources, seen, n)
        whole = visits + self._alpha * self._counts.sizes
        drawn = visits[sources] > 0
        data = np.where(
            drawn,
            (seen + self._alpha) / np.where(drawn, whole[sources], 1.0),
            self._learned,
        )
        kept = data > 0
        lengths = np.bincount(sources[kept], minlength=n)
        return replace(
            self._chain,
            indptr=np.concatenate(([0], np.cumsum(lengths))),
            indices=self._counts.indices[kept],
            data=data[kept],
            exact=None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Heights:
    """The pairs that the runs of a calibration curve visited, and the outcomes.

    An entry is a visit of a run to a pair; `frames` counts the run's frames in the
    pair, and `happened` those followed by a violation.
    """

    runs: int
    run: Ints
    pair: Ints
    frames: Floats
    happened: Floats

    @classmethod
    def of(cls, told: Sequence[Foretold], horizon_s: float) -> _Heights:
        pairs = np.concatenate([each.pairs for each in told])
        true = np.concatenate([each.came_true(horizon_s) for each in told])
        run = np.repeat(range(len(told)), [len(each.times_s) for each in told])
        known = pairs >= 0
        both = np.stack([run[known], pairs[known]])
        entries, place = np.unique(both, axis=1, return_inverse=True)
        place = place.ravel()
        return cls(
            len(told), entries[0], entries[1], np.bincount(place).astype(np.float64),
            np.bincount(place, true[known]).astype(np.float64),
        )  # fmt: skip

    def curve(self, risks: Floats, weight: Floats) -> Calibration:
        """Returns the calibration curve of the weighted runs, for a table of risks."""
        said = risks.ravel()[self.pair]
        return calibrated(said, self.happened, self.run, self.frames, weight)

    def off(self, drawn: Sequence[Floats]) -> float:
        """Returns the error of the risks of single pairs: 0 if chance explains all
        deviations, 1 for the maximum error.

        The error is relative to the variance of a single run's outcome. The variance
        due to outcomes and draws is subtracted.
        """
        pairs, place, runs, came = self._pairs()
        told = np.array([each.ravel()[pairs] for each in drawn], np.float64)
        mean, spread = told.mean(axis=0), told.var(axis=0)
        share = came / runs
        apart = (self.happened / self.frames - share[place]) ** 2
        chance = np.bincount(place, apart) / np.maximum(runs * (runs - 1), 1)
        weight = np.where(runs >= FEWEST_RUNS, runs, 0.0)
        beyond = (weight * ((share - mean) ** 2 - chance - spread)).sum()
        single = (weight * mean * (1.0 - mean)).sum()
        return float(np.clip(beyond / single, 0.0, _MOST)) if single > 0.0 else 0.0

    def move(self, drawn: list[Floats], random: np.random.Generator) -> None:
        """Adds random estimation errors to the drawn risks of each pair.

        A pair's risk is drawn from a beta distribution around the resampled risk. The
        draws are then resampled, weighted by how well they predicted the outcomes of
        the runs through the pair.
        """
        firm = 1.0 / max(self.off(drawn), _LEAST_OFF) - 1.0
        pairs, _, runs, came = self._pairs()
        happened, kept = (np.zeros(drawn[0].size) for _ in range(2))
        happened[pairs], kept[pairs] = came, runs - came
        means = np.array([each.ravel() for each in drawn])
        np.clip(means, _LEAST, 1.0 - _LEAST, out=means)
        ends = firm * means[:, pairs], firm * (1.0 - means[:, pairs])
        foretold = _foretold(*ends, came, runs - came)
        for pair, weight in zip(pairs.tolist(), foretold.T, strict=True):
            means[:, pair] = means[_again(weight, random), pair]
        for number, each in enumerate(means.astype(np.float64)):
            moved = random.beta(firm * each + happened, firm * (1.0 - each) + kept)
            drawn[number] = moved.reshape(drawn[number].shape).astype(np.float32)

    def _pairs(self) -> tuple[Ints, Ints, Floats, Floats]:
        """Returns the pairs, the index of each entry's pair, and the numbers of runs
        and violations per pair.

        The frames of a run are dependent, so each run counts once.
        """
        pairs, place = np.unique(self.pair, return_inverse=True)
        runs, came = np.bincount(place), np.bincount(place, self.happened / self.frames)
        return pairs, place, runs.astype(np.float64), came.astype(np.float64)


def _foretold(true: Floats, false: Floats, came: Floats, kept: Floats) -> Floats:
    """Returns the likelihood of the outcomes under beta distributions with these
    parameters.

    Likelihoods are relative to the most likely draw of each column, which has
    likelihood 1.
    """
    from scipy.special import betaln

    logarithm = betaln(true + came, false + kept) - betaln(true, false)
    return np.asarray(np.exp(logarithm - logarithm.max(axis=0)), np.float64)


def _again(weight: Floats, random: np.random.Generator) -> Ints:
    """Resamples draws by weight; returns their indices."""
    edges = np.cumsum(weight)
    spread = (np.arange(weight.size) + random.random()) / weight.size
    found = np.searchsorted(edges, spread * edges[-1])
    return np.asarray(np.minimum(found, weight.size - 1), np.int64)
