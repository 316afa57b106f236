"""Guaranteed rates of a threshold, from runs that are used for nothing else.

The threshold follows from the clean runs alone: the lowest at which few enough of them
have an alarm to bound the rate of future runs at the available confidence. That is the
exact binomial bound of Clopper and Pearson, tested from the highest threshold downwards
until the first failure. Testing in this order needs no correction for the number of
thresholds. The violating runs do not influence the threshold, so the same bound applied
to them limits the rate of missed violations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from forewarn.monitors.evaluation.figures import at_most, spared, suffices
from forewarn.monitors.evaluation.warned import LOWEST_THRESHOLD, Climb, threshold

Rate = Literal["false_alarms", "missed"]


@dataclass(frozen=True, slots=True)
class Asked:
    """The rates to guarantee for each law.

    Args:
        false_alarms: Maximum fraction of clean runs with an alarm.
        missed: Maximum fraction of violating runs without an alarm in time; None: any.
        confidence: Probability that all guarantees hold together.
        laws: Number of laws among which the allowed error is divided.
    """

    false_alarms: float
    missed: float | None
    confidence: float
    laws: int = 1

    @property
    def delta(self) -> float:
        """The allowed probability of error of each single guarantee."""
        return (1.0 - self.confidence) / (self.laws * (1 + (self.missed is not None)))


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A guaranteed rate of future runs, and the runs behind it.

    Args:
        law: The law.
        rate: The kind of rate: false alarms or missed violations.
        most: The maximum rate that is guaranteed.
        runs: Number of runs on which the rate was tested.
        failures: The number of runs with a false alarm, or that were missed.
        bound: The upper confidence bound on the rate; never above `most`.
    """

    law: str
    rate: Rate
    most: float
    runs: int
    failures: int
    bound: float

    @property
    def kind(self) -> str:
        """The kind of runs that the guarantee covers: clean or violating."""
        return KINDS[self.rate]

    def sentence(self) -> str:
        """For people."""
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
        law: The law.
        rate: The kind of rate: false alarms or missed violations.
        runs: Number of runs available.
        more: The number of further runs of this kind that are needed, if failures stay
            as frequent; None: no number suffices.
        why: The reason why the rate is not guaranteed.
    """

    law: str
    rate: Rate
    runs: int
    more: int | None
    why: str

    @property
    def reason(self) -> str:
        """The reason, and the number of further runs that would help."""
        if self.more is None:
            return self.why
        return f"{self.why}; it needs {self.more} more {KINDS[self.rate]} runs"

    def sentence(self) -> str:
        """For people."""
        return f"{self.law}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Certified:
    """The threshold and the guarantees of one law.

    Args:
        threshold: The lowest threshold that keeps the false-alarm rate; None if no
            threshold does.
        guarantees: The guarantees at this threshold.
        lacks: The rates that are not guaranteed; empty if all requested ones are.
    """

    threshold: float | None
    guarantees: tuple[Guarantee, ...]
    lacks: tuple[Lack, ...] = ()


def certify(
    law: str, climbs: Sequence[Climb], asked: Asked, reach: float = 1.0
) -> Certified:
    """The lowest threshold with a guaranteed false-alarm rate, and its rate of missed
    violations.

    Args:
        law: The law.
        climbs: The highest risk in each run; these runs were used for nothing else.
        asked: The rates to guarantee.
        reach: The highest risk that the guard can state before a violation.
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
    alarmed = sum(climb.top >= at for climb in clean)
    if reach < LOWEST_THRESHOLD or at > reach:
        why = f"its risk is never above {reach:.2g} before it is broken"
        more = None
        if reach >= LOWEST_THRESHOLD:
            why += f", which {reached} of {len(clean)} clean runs reach"
            more = _more(reached, len(clean), allowed, delta)
        lack = Lack(law, "false_alarms", len(clean), more, why)
        return Certified(None, (), (lack,))
    found = [
        Guarantee(
            law, "false_alarms", allowed, len(clean), alarmed,
            at_most(alarmed, len(clean), delta),
        )
    ]  # fmt: skip
    if asked.missed is None:
        return Certified(at, tuple(found))
    violating = [climb for climb in climbs if climb.broken is not None]
    failures = sum(not climb.warned(at).detected for climb in violating)
    judged = judge(law, "missed", failures, len(violating), asked.missed, delta)
    if isinstance(judged, Lack):
        return Certified(at, tuple(found), (judged,))
    return Certified(at, (*found, judged))


def judge(
    law: str, rate: Rate, failures: int, runs: int, most: float, delta: float
) -> Guarantee | Lack:
    """Whether this number of failures guarantees a rate."""
    bound = at_most(failures, runs, delta) if runs else 1.0
    if bound <= most:
        return Guarantee(law, rate, most, runs, failures, bound)
    more = _more(failures, runs, most, delta)
    missed = "missed" if rate == "missed" else "with an alarm"
    why = f"{failures} of {runs} {KINDS[rate]} runs are {missed}"
    if rate == "false_alarms":
        why = f"{failures} of {runs} {KINDS[rate]} runs have an alarm"
    if runs:
        why += f", so up to {bound:.2f} may be"
    return Lack(law, rate, runs, more, f"{why}, and {most:g} is asked for")


def _more(failures: int, runs: int, most: float, delta: float) -> int | None:
    """The number of further runs needed if failures stay as frequent."""
    fewest = suffices(failures, runs, most, delta)
    return None if fewest is None else max(fewest - runs, 1)


def over_groups(
    failures: Iterable[tuple[int, int]], delta: float
) -> tuple[float, float]:
    """The mean of the groups' own rates, and its upper confidence bound.

    Each group counts once, however many runs it has. Groups are assumed to be
    independent of each other; runs within a group need not be independent. The bound is
    the lower of Hoeffding's and Bentkus'.

    Args:
        failures: For each group, the number of failed runs and of all runs.
        delta: The probability that the bound is too low.
    """
    from scipy.special import bdtr

    rates = [part / whole for part, whole in failures if whole]
    n = len(rates)
    if not n:
        return 0.0, 1.0
    mean = sum(rates) / n

    def possible(at: float) -> float:
        """The probability of a mean this low if the true rate were `at`."""
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
    """The probability that groups differ this much if all have the same failure rate.

    Runs are assigned to the groups at random, and the deviation of the groups' failures
    from the common rate is compared.

    Args:
        failures: For each group, the number of failed runs and of all runs.
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
