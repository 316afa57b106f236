"""Runs of random bits, unsafe by a rule that is known."""

from __future__ import annotations

import random

from forewarn.monitors.rules.evolving.bits import Matrix, Occasion, matrix

Hidden = list[list[tuple[int, bool]]]


def hidden(
    seed: int,
    predicates: int = 8,
    runs: int = 40,
    events: int = 3,
    groups: int = 2,
    flipped: float = 0.0,
) -> tuple[Matrix, Hidden]:
    """Runs, and the or of and-groups by which they are unsafe, but for some flipped."""
    luck = random.Random(seed)
    truth = []
    for _ in range(groups):
        chosen = luck.sample(range(predicates), luck.choice((1, 2, 3)))
        truth.append([(p, i == 0 or luck.random() < 0.7) for i, p in enumerate(chosen)])
    rows = [
        [
            Occasion(1, sum((luck.random() < 0.3) << i for i in range(predicates)))
            for _ in range(luck.randint(1, events))
        ]
        for _ in range(runs)
    ]
    labels = [
        any(
            all(bool(row >> p & 1) == wanted for p, wanted in group)
            for group in truth
            for _, row, _ in run
        )
        != (luck.random() < flipped)
        for run in rows
    ]
    names = [f"p{i}" for i in range(predicates)]
    return matrix(names, ["before"], rows, list(labels)), truth
