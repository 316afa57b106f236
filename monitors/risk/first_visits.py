"""Bounds on risks from first visits, without the Markov assumption.

For each run and each pair of a chain state and a monitor state, we take the first
moment in this pair, before any violation. The outcome of a first visit is whether an
obligation that was pending then, or arose within the horizon, was broken. Outcomes are
independent between runs, even if the future depends on more than the state.
Clopper-Pearson bounds therefore hold for the probability at a first visit, and a
Bonferroni correction makes them hold for all pairs at once. The bounds do not apply to
later visits in a run.

If the ends of runs are counted, obligations pending at the end of a run are decided.
Otherwise, and where frames are missing, some outcomes are unknown. The lower bound
counts unknown outcomes as met, and the upper bound counts them as broken. Both bounds
therefore hold no matter why a run was truncated.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from forewarn.abstractions.errors import InvalidModel
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.chains.model import Model
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.risk.product import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class FirstVisits:
    """The outcomes of first visits to the pairs of a law, over the training runs.

    Args:
        horizon_s: The horizon H of the risk, in seconds.
        monitor: The digest of the monitor (see `monitor_digest`).
        pairs: One row per pair: the monitor's state, the chain's state, and three
            numbers of runs. These count the visits to the pair, the visits followed by
            a violation, and the visits with an unknown outcome.
    """

    horizon_s: float
    monitor: str
    pairs: Ints

    def as_dict(self) -> dict[str, Any]:
        """Returns the visits as stored in the model's file."""
        return {
            "horizon_s": self.horizon_s,
            "monitor": self.monitor,
            "pairs": self.pairs.tolist(),
        }

    @classmethod
    def from_dict(cls, content: object, source: str = "") -> FirstVisits:
        """Creates the visits from the content of a model's file."""
        file = validated(_File, content, source, InvalidModel)
        pairs = np.array(file.pairs, np.int64).reshape(-1, 5)
        if (pairs[:, 3] + pairs[:, 4] > pairs[:, 2]).any():
            raise InvalidModel(
                "a pair of states has more outcomes than visits", source=source
            )
        if len(np.unique(pairs[:, :2], axis=0)) < len(pairs):
            raise InvalidModel(
                "the first visits contain a pair of states twice", source=source
            )
        return cls(file.horizon_s, file.monitor, pairs)

    def bounds(self, possible: Bools, delta: float) -> tuple[Floats, Floats]:
        """Returns the lower and upper bound on the risk of each pair; NaN where there
        was no visit.

        Args:
            possible: The pairs that can occur, whose bounds hold jointly.
            delta: The error probability of all bounds together.
        """
        from scipy.special import betaincinv

        low, high = (np.full(possible.shape, math.nan) for _ in range(2))
        monitor, state, runs, came, unknown = self.pairs.T
        each = delta / 2 / max(int(possible.sum()), len(self.pairs), 1)
        most = came + unknown
        with np.errstate(invalid="ignore"):
            least = betaincinv(np.maximum(came, 1), runs - came + 1, each)
            greatest = betaincinv(most + 1, np.maximum(runs - most, 1), 1 - each)
        low[monitor, state] = np.where(came == 0, 0.0, least)
        high[monitor, state] = np.where(most == runs, 1.0, greatest)
        return low, high


def visits_for(
    model: Model,
    law: str,
    horizon_s: float,
    automaton: Automaton,
    letters: Ints,
    source: str = "",
) -> FirstVisits | None:
    """Returns the first visits of a law, if the model has them for this horizon.

    Args:
        model: The model.
        law: The law's text.
        horizon_s: The horizon H, in seconds.
        automaton: The law's monitor.
        letters: The letter that the monitor reads in each state of the chain.
        source: The model's file, for error messages.
    """
    if law not in model.first_visits:
        return None
    found = FirstVisits.from_dict(model.first_visits[law], source)
    if (found.pairs[:, 2] > sum(model.starts.values())).any():
        raise InvalidModel(
            "a first visit has a higher count than there are training runs",
            source=source,
        )
    if found.monitor != monitor_digest(automaton, letters):
        return None
    if (found.pairs[:, :2] >= (automaton.n, len(letters))).any():
        raise InvalidModel(
            "a first visit refers to an unknown pair of states", source=source
        )
    return found if math.isclose(found.horizon_s, horizon_s) else None


def monitor_digest(automaton: Automaton, letters: Ints) -> str:
    """Returns a digest that differs between monitors with different transitions or
    state numbers.
    """
    parts = (automaton.step, automaton.pending, letters)
    content = b"".join(np.asarray(part, "<i8").tobytes() for part in parts)
    return hashlib.sha256(content).hexdigest()[:16]


_Number = Annotated[int, Field(ge=0, le=1 << 53)]
_Pair = Annotated[list[_Number], Field(min_length=5, max_length=5)]


class _File(Strict):
    horizon_s: float = Field(gt=0)
    monitor: str
    pairs: list[_Pair]
