"""What the demo does with one world: learn, check, monitor, and count the warnings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import mean, median
from typing import cast

from forewarn.abstractions.abstraction import Abstraction, load_abstraction
from forewarn.abstractions.expression.tree import Compare, Name
from forewarn.abstractions.readers import read_trace
from forewarn.monitors.chains.intervals import clopper_pearson
from forewarn.monitors.chains.learning import Support, Tally, learn
from forewarn.monitors.chains.model import Counts, Model
from forewarn.monitors.laws.automaton import Automaton, compile_law
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.risk.evidence import (
    count_violations,
    letters_of_states,
    truth_in_abstraction,
)
from forewarn.monitors.risk.tables import RiskTable, solve_risk, violation_ever

FOLDER = Path(__file__).parent
DELTA = 0.05
"""The bounds on the risks hold together with probability 1 - DELTA."""

Run = list[int]
"""A trace as abstract states."""


@dataclass(frozen=True, slots=True)
class World:
    """Traces that ship, and the laws that are asked of them.

    Args:
        name: Its vocabulary, and its folder.
        story: What happens in it.
        laws: Their texts by name.
        horizon_s: How far the guard's risk looks ahead.
    """

    name: str
    story: str
    laws: dict[str, str]
    horizon_s: float


WORLDS = (
    World(
        "driving",
        "a car approaches a traffic light",
        {
            "stop at red": "always (traffic_light == red and stop_line_distance <= 2 m"
            " -> eventually[0, 2 s] speed < 0.5 km/h)"
        },
        horizon_s=3.0,
    ),
    World(
        "household",
        "a robot warms mugs and rinses them",
        {
            "no metal in a running microwave": "always not (is_inside(Fork, Microwave)"
            " and is_toggled(Microwave))",
        },
        horizon_s=3.0,
    ),
)


def in_words(abstraction: Abstraction, bits: int) -> str:
    """A state for people: the predicates that hold, and bands as one range each."""
    words: list[str] = []
    bands: dict[str, tuple[list[str], list[str]]] = {}
    for i, predicate in enumerate(abstraction.predicates):
        holds = bits >> i & 1
        match predicate.expression:
            case Compare(operator="<", left=Name(name=name), right=bound):
                below, above = bands.setdefault(name, ([], []))
                (below if holds else above).append(repr(bound))
            case _ if holds:
                words.append(repr(predicate))
    for name, (below, above) in bands.items():
        # Bounds ascend, so the range lies between the last missed and the first met.
        if len(below) + len(above) > 1:
            lower = f"{above[-1]} <= " if above else ""
            words.append(f"{lower}{name}{f' < {below[0]}' if below else ''}")
        elif below:
            words.append(f"{name} < {below[0]}")
    return ", ".join(words) or "nothing of note"


@dataclass(frozen=True, slots=True)
class Judged:
    """One run under one law, in numbers of frames.

    Args:
        states: The abstract states.
        monitors: The names of the monitor's states.
        risks: The guard's risk at each frame.
        trigger: The frame in which the obligation that was broken arose; for an
            invariant the violation itself. None if the law was kept.
        violation: The frame in which the law was broken.
    """

    states: Run
    monitors: list[str]
    risks: list[float]
    trigger: int | None
    violation: int | None


@dataclass(frozen=True, slots=True)
class Warnings:
    """How a guard would have warned in runs that were not learned from.

    Args:
        threshold: The risk from which on it warns.
        violating: Runs in which the law was broken.
        detected: Of these, with the first alarm strictly before the trigger.
        to_violation_s: For those, the median time from alarm to violation.
        to_trigger_s: The same to the trigger.
        clean: Runs in which the law was kept.
        false_alarms: Of these, with any alarm.
    """

    threshold: float
    violating: int
    detected: int
    to_violation_s: float | None
    to_trigger_s: float | None
    clean: int
    false_alarms: int


@dataclass(frozen=True, slots=True)
class LawStudy:
    """One law in one world: its risk table, and the runs held out, judged.

    Args:
        name: The law, for people.
        table: The risk of every state, with bounds and evidence.
        ever: The chain's probability that a run breaks the law.
        runs: The runs that were not learned from.
    """

    name: str
    table: RiskTable
    ever: float
    runs: tuple[Judged, ...]

    def warnings(self, threshold: float, period_s: float) -> Warnings:
        """What a guard with this threshold would have said."""
        early: list[tuple[int, int]] = []
        clean = false_alarms = 0
        for run in self.runs:
            alarm = next(
                (i for i, risk in enumerate(run.risks) if risk >= threshold), None
            )
            if run.violation is None or run.trigger is None:
                clean += 1
                false_alarms += alarm is not None
            elif alarm is not None and alarm < run.trigger:
                early.append((run.violation - alarm, run.trigger - alarm))
        return Warnings(
            threshold,
            len(self.runs) - clean,
            len(early),
            period_s * median(v for v, _ in early) if early else None,
            period_s * median(t for _, t in early) if early else None,
            clean,
            false_alarms,
        )


@dataclass(frozen=True, slots=True)
class Study:
    """All that is found in one world."""

    world: World
    abstraction: Abstraction
    period_s: float
    model: Model
    laws: tuple[LawStudy, ...]


def study(world: World) -> Study:
    """Learns from the world's training runs and judges those held out."""
    abstraction = load_abstraction(FOLDER / f"{world.name}.abstraction.yaml")
    period_s = abstraction.period_s or 1.0
    training = list(_runs(abstraction, world, "train"))
    held_out = list(_runs(abstraction, world, "held_out"))
    tally = Tally()
    for run in training:
        tally.add_sequence([abstraction.state_name(bits) for bits in run])
    model = learn(
        tally,
        Support("observed"),
        Fraction(0),
        "absorb",
        abstraction=abstraction.as_dict(),
        period_s=period_s,
        laws=tuple(world.laws.values()),
        training={"traces": tally.traces, "frames": tally.frames},
    )
    laws = []
    for name, text in world.laws.items():
        law = compile_law(parse_formula(text, abstraction.vocabulary), period_s)
        steps = round(world.horizon_s / period_s)
        laws.append(
            _law_study(name, law, abstraction, model, steps, training, held_out)
        )
    return Study(world, abstraction, period_s, model, tuple(laws))


def _runs(abstraction: Abstraction, world: World, share: str) -> Iterator[Run]:
    for path in sorted((FOLDER / world.name / share).iterdir()):
        trace = read_trace(path)
        yield [abstraction.encode(frame.values) for frame in trace.frames]


def _law_study(
    name: str,
    law: Automaton,
    abstraction: Abstraction,
    model: Model,
    horizon_steps: int,
    training: list[Run],
    held_out: list[Run],
) -> LawStudy:
    chain, counts = model.chain, cast(Counts, model.counts)
    numbers = {s: i for i, s in enumerate(chain.states) if i != chain.end}
    letters = letters_of_states(chain, law, truth_in_abstraction(chain, abstraction))
    index = {abstraction.bits(name): i for name, i in numbers.items()}
    table = solve_risk(
        chain,
        letters,
        law,
        horizon_steps,
        clopper_pearson(chain.states, counts, DELTA),
        visits=counts.visits,
        violations_seen=count_violations(
            law, letters, ([index[bits] for bits in run] for run in training)
        ),
    )
    unbounded = violation_ever(chain, letters, law)
    beginnings = [i for i, times in model.starts.items() for _ in range(times)]
    ever = mean(
        float(unbounded[law.step[law.initial, letters[i]], i]) for i in beginnings
    )
    decide = [abstraction.decides(proposition) for proposition in law.propositions]

    def judged(run: Run) -> Judged:
        monitor, since, names, risks = law.initial, 0, [], []
        for i, bits in enumerate(run):
            letter = sum(holds(bits) << k for k, holds in enumerate(decide))
            if not law.pending[monitor]:
                since = i
            monitor = int(law.step[monitor, law.column(letter)])
            names.append(law.names[monitor])
            # What was never seen in training is no proof of safety.
            known = index.get(bits)
            risks.append(1.0 if known is None else table.lookup(monitor, known))
            if monitor == law.violated:
                return Judged(run[: i + 1], names, risks, since, i)
        return Judged(run, names, risks, None, None)

    return LawStudy(name, table, ever, tuple(map(judged, held_out)))
