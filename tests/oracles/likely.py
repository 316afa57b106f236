"""Measures how often `likely` contains the true risk, for models trained as in `train`.

The chains are those of `coverage`, with states encoded in three bits. With `memory`,
two states look the same. The true risk of a pair is estimated from many further runs:
it is the fraction of visits to the pair after which the predicted event occurs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from forewarn.abstractions.abstraction import Abstraction
from forewarn.abstractions.trace import Kept, TraceHeader
from forewarn.monitors.chains.learning import Tally, learn
from forewarn.monitors.evaluation.foretold import Foretold, calibrate, unmet_ahead
from forewarn.monitors.laws.lawbook import Law, find_laws
from forewarn.monitors.risk.calibration import Likely
from forewarn.monitors.risk.evidence import (
    compile_for,
    letters_of_states,
    truth_in_abstraction,
)
from forewarn.monitors.risk.product import Floats, Ints
from forewarn.monitors.trust.encoding import encode_trace
from forewarn.monitors.trust.hindsight import Judge
from forewarn.monitors.trust.resampling import likely_risks
from tests.oracles.coverage import HORIZON, Covered, random_truth
from tests.oracles.first import walked

SIZES = (150, 600)
DRAWS = 100
FURTHER = 20_000
"""The number of runs for estimating the true risks."""
OFTEN = 1_000
"""The minimum number of visits to a pair for estimating its true risk."""

BITS = ("b0", "b1", "b2")
ABSTRACTION = Abstraction.from_dict(
    {
        "format": "forewarn.abstraction/1",
        "name": "bits",
        "period_s": 1.0,
        "predicates": list(BITS),
    },
    "bits",
)


def coverage(
    seed: int,
    chains: int,
    sizes: tuple[int, ...] = SIZES,
    memory: bool = False,
    draws: int = DRAWS,
) -> dict[tuple[str, int], Covered]:
    """Returns the coverage by law and number of runs; each pair counts as a table."""
    rng = np.random.default_rng(seed)
    found: dict[tuple[str, int], Covered] = {}
    for _ in range(chains):
        truth, labels = random_truth(rng)
        seen = np.arange(truth.n)
        if memory:
            seen[truth.n - 3] = max(truth.n - 4, 0)
        laws = _laws(labels)
        further = [seen[run] for run in walked(rng, truth, FURTHER)]
        for size in sizes:
            runs = [_kept(seen[run]) for run in walked(rng, truth, size)]
            for law, low, high, right in _judged(runs, laws, further, draws):
                into = found.setdefault((law, size), Covered())
                # `likely` is an estimate for each pair separately.
                into.tables += len(right)
                into.covered += int(((low <= right) & (right <= high)).sum())
                into.states += len(right)
                into.width += float((high - low).sum())
    return found


def _laws(labels: dict[str, tuple[str, ...]]) -> list[Law]:
    def told(name: str) -> str:
        bits = (f"{'' if int(name[1:]) >> i & 1 else 'not '}{b}"
                for i, b in enumerate(BITS))  # fmt: skip
        return f"({' and '.join(bits)})"

    u, t, d = (" or ".join(map(told, labels[label])) for label in "utd")
    texts = (
        f"invariant := always not ({u})",
        f"response := always (({t}) -> eventually[0, 2 s] ({d}))",
    )
    return [law for text in texts for law in find_laws(text)]


def _kept(run: Ints) -> Kept:
    bits = {name: (run >> i & 1).astype(bool) for i, name in enumerate(BITS)}
    header = TraceHeader(provides=BITS, period_s=1.0)
    return Kept(header, np.arange(float(len(run))), bits)


def _judged(
    runs: list[Kept], laws: list[Law], further: list[Ints], draws: int
) -> Iterator[tuple[str, Floats, Floats, Floats]]:
    """Yields, for each law, the bounds and the true risks of its frequent pairs."""
    learning, calibrating = runs[: len(runs) * 2 // 3], runs[len(runs) * 2 // 3 :]
    tally = Tally()
    for run in learning:
        tally.add_codes(encode_trace(run, ABSTRACTION), ABSTRACTION.state_name)
    model = learn(
        tally,
        abstraction=ABSTRACTION.as_dict(), period_s=1.0,
        laws=tuple(law.told for law in laws),
    )  # fmt: skip
    horizon_s = float(HORIZON)
    judge = Judge(model, ABSTRACTION, laws, [horizon_s], 1.0)
    told: dict[str, list[Foretold]] = {law.name: [] for law in laws}
    for i, run in enumerate(calibrating):
        for name, each in judge.look(i, run):
            told[name].append(each)
    curves = {name: calibrate(several, horizon_s) for name, several in told.items()}
    kept = likely_risks(model, laws, horizon_s, learning, told, curves, draws)
    number = {name: i for i, name in enumerate(model.chain.states)}
    codes = range(max(int(run.max()) for run in further) + 1)
    own = np.array([number.get(ABSTRACTION.state_name(code), -1) for code in codes])
    known = [run for run in (own[each] for each in further) if (run >= 0).all()]
    read = truth_in_abstraction(model.chain, ABSTRACTION)
    for law in laws:
        likely = Likely.from_dict(kept[repr(law.formula)])
        automaton = compile_for(law.formula, ABSTRACTION, 1.0)
        letters = letters_of_states(model.chain, automaton, read)
        ahead = unmet_ahead(automaton, [letters[run] for run in known], HORIZON)
        pairs = np.concatenate(
            [
                monitors * model.chain.n + run[: len(monitors)]
                for run, (monitors, _) in zip(known, ahead, strict=True)
            ]
        )
        moments = np.bincount(pairs, minlength=likely.low.size)
        came = np.bincount(pairs, np.concatenate([u for _, u in ahead]), moments.size)
        often = moments >= OFTEN
        low, high = likely.low.ravel()[often], likely.high.ravel()[often]
        share = came[often] / moments[often]
        # Allow for the sampling error of the estimated true risk.
        off = 2 * np.sqrt(share * (1 - share) / moments[often])
        right = share + np.clip(np.clip(share, low, high) - share, -off, off)
        yield law.name, low, high, right
