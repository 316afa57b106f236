"""Guaranteed rates for a threshold, from runs that are used for nothing else.

The threshold depends only on the clean runs. The threshold is the lowest one for which
the exact binomial bound of Clopper and Pearson keeps the false-alarm rate of future
runs within the limit. Thresholds are tested from the highest downwards until the first
failure; testing in this order needs no correction for the number of thresholds. The
violating runs do not influence the threshold, so the same bound applies to the rate of
missed violations among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from forewarn.abstractions.serial import Strict
from forewarn.monitors.evaluation.figures import at_most, spared, suffices
from forewarn.monitors.evaluation.warned import LOWEST_THRESHOLD, Climb, threshold

Rate = Literal["false_alarms", "missed"]


@dataclass(frozen=True, slots=True)
class Asked:
    """The rates to guarantee for each law.

    Args:
        false_alarms: Maximum fraction of clean runs with an alarm.
        missed: Maximum fraction of violating runs without an alarm in time; None for no
            limit.
        confidence: Probability that all guarantees hold simultaneously.
        laws: Number of laws that share the allowed probability of error.
    """

    false_alarms: float
    missed: float | None
    confidence: float
    laws: int = 1

    @property
    def delta(self) -> float:
        """The allowed probability of error for each single guarantee."""
        return (1.0 - self.confidence) / (self.laws * (1 + (self.missed is not None)))


class Guarantee(Strict):
    """A rate that is guaranteed for future runs, and the runs that support it.

    Args:
        law: The law's name.
        rate: The kind of rate: false alarms or missed violations.
        most: The guaranteed upper limit of the rate.
        runs: Number of runs on which the rate was tested.
        failures: Number of runs with a false alarm, or number of missed violations.
        bound: The upper confidence bound on the rate; never above `most`.
    """

    law: str
    rate: Rate
    most: float = Field(ge=0, le=1)
    runs: int = Field(ge=0)
    failures: int = Field(ge=0)
    bound: float = Field(ge=0, le=1)

    @property
    def kind(self) -> str:
        """The kind of runs that the guarantee covers: clean or violating."""
        return KINDS[self.rate]

    def sentence(self) -> str:
        """Returns the guarantee as text."""
        came = f"{self.failures} of {self.runs} {self.kind} runs"
        if self.rate == "false_alarms":
            what = "of clean runs have an alarm"
        else:
            what = "of violating runs have no alarm before the trigger"
        return f"{self.law}: at most {self.most:g} {what} ({came})"


KINDS: dict[Rate, str] = {"false_alarms": "clean", "missed": "violating"}


@dataclass(frozen=True, slots=True)
class Lack:
    """Why a rate cannot be guaranteed.

    Args:
        law: The law's name.
        rate: The kind of rate: false alarms or missed violations.
        runs: Number of runs available.
        more: Number of further runs that are needed if failures stay as frequent; None
            if no number suffices.
        why: The reason why the rate is not guaranteed.
    """

    law: str
    rate: Rate
    runs: int
    more: int | None
    why: str

    @property
    def reason(self) -> str:
        """The reason, and the number of further runs that would suffice."""
        if self.more is None:
            return self.why
        return f"{self.why}; {self.more} more {KINDS[self.rate]} runs are needed"

    def sentence(self) -> str:
        """Returns the reason with the law, as text."""
        return f"{self.law}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Certified:
    """The threshold and the guarantees of one law.

    Args:
        threshold: The lowest threshold that keeps the false-alarm rate; None if no
            threshold does.
        guarantees: The guarantees at this threshold.
        lacks: The rates that are not guaranteed; empty if all requested rates are
            guaranteed.
    """

    threshold: float | None
    guarantees: tuple[Guarantee, ...]
    lacks: tuple[Lack, ...] = ()


def certify(
    law: str, climbs: Sequence[Climb], asked: Asked, reach: float = 1.0
) -> Certified:
    """Finds the lowest threshold with a guaranteed false-alarm rate, and tests the rate
    of missed violations at this threshold.

    Args:
        law: The law's name.
        climbs: The risks in each run; these runs must have been used for nothing else.
        asked: The rates to guarantee.
        reach: The highest risk that the guard can report before a violation.
    """
    clean = [climb for climb in climbs if climb.broken is None]
    allowed, delta = asked.false_alarms, asked.delta
    most = spared(len(clean), allowed, delta)
    if most is None:
        why = (
            f"{len(clean)} clean runs are too few for a false-alarm rate of {allowed:g}"
        )
        more = _more(0, len(clean), allowed, delta)
        return Certified(None, (), (Lack(law, "false_alarms", len(clean), more, why),))
    at = threshold(climbs, most)
    reached = sum(climb.top >= reach for climb in clean)
    if at > reach and reached <= most:
        at = reach
    if reach < LOWEST_THRESHOLD or at > reach:
        why = f"the risk never exceeds {reach:.2g} before a violation"
        more = None
        if reach >= LOWEST_THRESHOLD:
            why += f", and {reached} of {len(clean)} clean runs reach this risk"
            more = _more(reached, len(clean), allowed, delta)
        lack = Lack(law, "false_alarms", len(clean), more, why)
        return Certified(None, (), (lack,))
    return certified_at(law, climbs, asked, at)


def certified_at(
    law: str, climbs: Sequence[Climb], asked: Asked, at: float
) -> Certified:
    """Tests the rates of false alarms and of missed violations at a threshold."""
    wanted: tuple[tuple[Rate, float | None], ...] = (
        ("false_alarms", asked.false_alarms),
        ("missed", asked.missed),
    )
    found = list[Guarantee | Lack]()
    for rate, most in wanted:
        if most is not None:
            of = [c for c in climbs if (c.broken is not None) == (rate == "missed")]
            failures = sum(climb.wrong_s(at) is not None for climb in of)
            found.append(judge(law, rate, failures, len(of), most, asked.delta))
    return Certified(
        at,
        tuple(each for each in found if isinstance(each, Guarantee)),
        tuple(each for each in found if isinstance(each, Lack)),
    )


def judge(
    law: str, rate: Rate, failures: int, runs: int, most: float, delta: float
) -> Guarantee | Lack:
    """Returns the guarantee that a number of failures supports, or why there is
    none.
    """
    bound = at_most(failures, runs, delta) if runs else 1.0
    if bound <= most:
        return Guarantee(
            law=law,
            rate=rate,
            most=most,
            runs=runs,
            failures=int(failures),
            bound=bound,
        )
    more = _more(failures, runs, most, delta)
    missed = "missed" if rate == "missed" else "with an alarm"
    why = f"{failures} of {runs} {KINDS[rate]} runs are {missed}"
    if rate == "false_alarms":
        why = f"{failures} of {runs} {KINDS[rate]} runs have an alarm"
    if runs:
        why += f", so the rate may be up to {bound:.2f}"
    return Lack(law, rate, runs, more, f"{why}, but at most {most:g} is requested")


def _more(failures: int, runs: int, most: float, delta: float) -> int | None:
    """Returns the number of further runs needed if failures stay as frequent."""
    fewest = suffices(failures, runs, most, delta)
    return None if fewest is None else max(fewest - runs, 1)


def over_groups(
    failures: Iterable[tuple[int, int]], delta: float
) -> tuple[float, float]:
    """Returns the mean of the failure rates of groups, and its upper confidence bound.

    Each group counts once, however many runs it has. Groups are assumed to be
    independent of each other; runs within a group need not be independent. The bound is
    the tighter one of Hoeffding's and Bentkus's bounds.

    Args:
        failures: For each group, the number of failed runs and the number of all runs.
        delta: The probability that the bound is too low.
    """
    from scipy.special import bdtr

    rates = [part / whole for part, whole in failures if whole]
    n = len(rates)
    if not n:
        return 0.0, 1.0
    mean = sum(rates) / n

    def possible(at: float) -> float:
        """Returns an upper bound on the probability of a mean this low if the true rate
        is `at`.
        """
        if at <= mean:
            return 1.0
        if at >= 1.0:
            return 0.0
        divergence = (1 - mean) * math.log((1 - mean) / (1 - at))
        if mean > 0:
            divergence += mean * math.log(mean / at)
        bentkus = math.e * float(bdtr(math.ceil(n * mean), n, at))
        return min(math.exp(-n * divergence), bentkus, 1.0)

    low, high = mean, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if possible(middle) <= delta else (middle, high)
    return mean, high


def alike(failures: Sequence[tuple[int, int]], draws: int = 2000) -> float:
    """Returns the p-value of the hypothesis that all groups have the same failure rate.

    The failures are assigned to the groups at random, and the deviations from the
    common rate are compared with the observed one.

    Args:
        failures: For each group, the number of failed runs and the number of all runs.
        draws: The number of random assignments.
    """
    import numpy as np

    sizes = np.array([whole for _, whole in failures if whole])
    parts = np.array([part for part, whole in failures if whole])
    total, failed = int(sizes.sum()), int(parts.sum())
    if len(sizes) < 2 or failed in (0, total):
        return 1.0
    random = np.random.default_rng(0)
    dealt = random.multivariate_hypergeometric(sizes, failed, draws, method="marginals")
    expected = sizes * failed / total
    apart = (((dealt - expected) ** 2) / sizes).sum(axis=1)
    own = float((((parts - expected) ** 2) / sizes).sum())
    return float((np.count_nonzero(apart >= own - 1e-9) + 1) / (draws + 1))
