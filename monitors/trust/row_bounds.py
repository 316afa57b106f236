"""How far each learned row may be off, and how many visits bring it close enough."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from forewarn.monitors.chains.absorption import row_sums
from forewarn.monitors.chains.intervals import clopper_pearson
from forewarn.monitors.chains.model import Counts
from forewarn.monitors.trust.sequential import massart

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Rows:
    """The learned rows as the bounds see them: frequencies, smoothing, sizes.

    Args:
        counts: What was seen.
        alpha: The pseudo-count of each allowed successor.
        open_rows: The states that may have successors that were never seen.
    """

    def __init__(self, counts: Counts, alpha: Fraction, open_rows: Bools) -> None:
        self._alpha = float(alpha)
        self._counts, self._open = counts, open_rows
        sizes, visits = counts.sizes, counts.visits
        self._k, self._n = np.repeat(sizes, sizes), np.repeat(visits, sizes)
        self._source = np.repeat(np.arange(counts.n), sizes)
        # sum_j |n - k n_j|, exactly.
        uneven = np.zeros(counts.n, np.int64)
        np.add.at(uneven, self._source, np.abs(self._n - self._k * counts.seen))
        self._uneven = uneven
        self._moved = [
            alpha * u / (n * (n + k * alpha)) if n else Fraction(0)
            for u, n, k in zip(
                uneven.tolist(), visits.tolist(), sizes.tolist(), strict=True
            )
        ]
        self.moved: Floats = np.array([float(m) for m in self._moved])
        """What smoothing moved of each row: the sum of absolute differences."""

    def margin(self, epsilon: float) -> bool:
        """Whether smoothing stays within the 11/10 of the paper's bound."""
        return max(self._moved) <= Fraction(str(epsilon)) / 10

    def trials(self, epsilon: float, delta: float) -> Floats:
        """H* of each row: the greatest H of its transitions, delta split over states.

        H is taken at the frequency (where there is one) and at the smoothed
        probability, whichever asks for more.
        """
        share = delta / self._counts.n
        whole = self._n + self._k * self._alpha
        made_up = 1.0 / self._k
        smoothed = np.divide(
            self._counts.seen + self._alpha, whole, out=made_up, where=self._n > 0
        )
        frequency = np.divide(
            self._counts.seen, self._n, out=smoothed.copy(), where=self._n > 0
        )
        found = np.zeros(self._counts.n)
        for probability in (frequency, smoothed):
            trials = massart(probability, epsilon, share)
            np.maximum.at(found, self._source, np.where(self._k > 1, trials, 0.0))
        return found

    def variation(self, delta: float) -> Floats:
        """How far each row may be off in total variation, all at once.

        The lesser of what Weissman's bound allows and of what the binomial bounds of
        the single transitions do, which are the better ones for rows that are nearly
        certain; each of the two has half of delta.
        """
        counts = self._counts
        ways = counts.sizes + self._open
        together = weissman_variation(ways, counts.visits, delta / 2)
        names = [str(i) for i in range(counts.n)]
        opened = self._open if self._open.any() else None
        bounds = clopper_pearson(names, counts, delta / 2, opened)
        rows = np.repeat(np.arange(counts.n), np.diff(bounds.indptr))
        visits = np.maximum(counts.visits, 1)
        seen = np.zeros(len(rows))
        seen[np.repeat(counts.sizes > 0, np.diff(bounds.indptr))] = counts.seen
        frequency = seen / visits[rows]
        more = row_sums(rows, np.maximum(bounds.high - frequency, 0.0), counts.n)
        if bounds.unseen is not None:
            more += bounds.unseen
        less = row_sums(rows, np.maximum(frequency - bounds.low, 0.0), counts.n)
        singly = np.where(counts.visits > 0, np.minimum(more, less), 1.0)
        found = np.minimum(together, singly) + self.moved / 2.0
        return np.where(ways > 1, np.minimum(found, 1.0), 0.0)

    def needed(self, epsilon: float, delta: float, steps: float) -> Floats:
        """Visits at which each row's total variation is at most epsilon / steps.

        Weissman's variation is sqrt(c / 2n) for sampling and at most k alpha d / n for
        smoothing, d being the distance of the frequencies from uniform; the sum is
        quadratic in 1 / sqrt(n). Where the visits so far allow less, it falls no
        slower from there.
        """
        sizes, visits = self._counts.sizes, self._counts.visits
        if steps == math.inf:
            return np.where(sizes + self._open > 1, math.inf, 0.0)
        allowed = epsilon / steps if steps else math.inf
        distance = np.where(
            visits > 0,
            self._uneven / np.maximum(2 * visits * sizes, 1),
            1.0 - 1.0 / np.maximum(sizes, 1),
        )
        smoothing = sizes * self._alpha * distance
        sampling = np.sqrt(weissman_weight(sizes + self._open, delta / 2) / 2.0)
        if allowed == math.inf:
            return np.zeros(len(sizes))
        root = sampling + np.sqrt(sampling**2 + 4.0 * smoothing * allowed)
        needed: Floats = (root / (2.0 * allowed)) ** 2
        onward = visits * (self.variation(delta) / allowed) ** 2
        return np.where(visits > 0, np.minimum(needed, onward), needed)


def weissman_weight(sizes: Ints, delta: float) -> Floats:
    """c with P(L1 distance of row and frequencies > e) <= delta/m for n = 2 c / e^2.

    Over the m rows with more than one successor, all bounds hold at once with
    probability 1 - delta. Rows with one successor are certain: c is 0.
    """
    k = np.asarray(sizes, np.float64)
    uncertain = k > 1
    rows = max(int(uncertain.sum()), 1)
    # ln(2^k - 2), which would overflow as written.
    outcomes = k * np.log(2.0) + np.log1p(-(2.0 ** (1.0 - np.maximum(k, 2.0))))
    weight = np.where(uncertain, outcomes + np.log(rows / delta), 0.0)
    return np.asarray(weight, np.float64)


def weissman_variation(sizes: Ints, visits: Ints, delta: float) -> Floats:
    """The total variation that each row stays within, with probability 1 - delta."""
    weight = weissman_weight(sizes, delta)
    radius = np.sqrt(weight / (2.0 * np.maximum(visits, 1)))
    return np.where((np.asarray(visits) == 0) & (weight > 0.0), 1.0, radius)
