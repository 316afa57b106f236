"""A world of four states, and what is counted in it."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np

from forewarn.abstractions.abstraction import from_expressions
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.chains.formats.own import model_as_dict
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Model
from forewarn.monitors.fleet.tallies import Counted, FleetTally, Subject

ABSTRACTION = from_expressions(
    ("speed > 60", "braking"), load_vocabulary("driving"), name="two", period_s=0.1
)
LAW = "always speed <= 60"
NAMES = [ABSTRACTION.state_name(bits) for bits in range(4)]
TRUE = np.array(
    [
        [0.85, 0.05, 0.08, 0.02],
        [0.30, 0.60, 0.00, 0.10],
        [0.40, 0.00, 0.55, 0.05],
        [0.10, 0.30, 0.30, 0.30],
    ]
)


def walked(rows: np.ndarray, steps: int, rng: np.random.Generator) -> Tally:
    states, edges = [0], rows.cumsum(axis=1)
    for u in rng.random(steps):
        states.append(min(int(np.searchsorted(edges[states[-1]], u)), 3))
    return of([NAMES[state] for state in states])


def of(*sequences: list[str]) -> Tally:
    tally = Tally()
    for states in sequences:
        tally.add_sequence(states)
    return tally


def learned(tally: Tally, support: str = "observed") -> Model:
    return learn(
        tally, Support(support), Fraction(0), "absorb",
        abstraction=ABSTRACTION.as_dict(), period_s=0.1, laws=(LAW,),
        training={"traces": tally.traces, "frames": tally.frames},
    )  # fmt: skip


def text(model: Model) -> str:
    return json.dumps(model_as_dict(model))


BASE = learned(walked(TRUE, 3_000, np.random.default_rng(1)))
SUBJECT = Subject.of(BASE)


def named(tally: Tally, own_id: str) -> FleetTally:
    return FleetTally.of(own_id, SUBJECT, Counted(tally))
