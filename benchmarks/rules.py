"""What docs/rules.md and docs/rules-evolve.md print: what rules cost, and their worth.

    python benchmarks/run.py rules
    python benchmarks/rules.py [--splits N]

The first reads the same events by twenty rules and by a bare loop that asks twenty
questions written by hand. Programs are parsed anew at every event, which is told apart.
The second prints, for each set of labelled traces, F1 over random 70/30 splits by task,
of evolved rules and of all who learn from the same bits. The sets are those that ship,
and those in $FOREWARN_DATA/rules where they are. The splits share the predicates, which
were written by people who had seen runs of the same kinds.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from run import ROOT, Row, aligned, installed, least_cpu

from forewarn.monitors.rules.engine import Engine
from forewarn.monitors.rules.evolving.bits.groups import and_groups
from forewarn.monitors.rules.evolving.bits.hypothesis import explain
from forewarn.monitors.rules.evolving.bits.matrix import Matrix, Occasion, matrix
from forewarn.monitors.rules.evolving.corpus import Corpus, corpus
from forewarn.monitors.rules.evolving.learning import compared, propose
from forewarn.monitors.rules.labelled import LabelledTrace, read_labelled
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Domain, Event
from forewarn.monitors.rules.rule import (
    Enforcement,
    Rule,
    RuleSet,
    Trigger,
    expert_rules,
)
from forewarn.scenarios.labelled import labelled_traces

DATA = Path(os.environ.get("FOREWARN_DATA", ROOT.parent / "shared" / "data")) / "rules"
SHARED: dict[str, Domain] = {"embodied": "household", "code": "code"}
SHIPPED: tuple[Domain, ...] = ("household", "driving", "code")
EVENT_BAR_S, ILP_BAR_S, LOOP_BAR_S = 20e-6, 0.5, 2.0
PAPER_S = {"embodied": 11.8, "code": 20.1}
RULES, HYPOTHESES = 20, 10
CONDITIONS = {
    "driving": (
        "lead_near and lead_slower", "must_brake_hard and not brakes",
        "at_light and light_forbids and not stands", "pedestrian_near and not stands",
        "near_junction and gives_way and paths_cross", "snows and speed > 30 km/h",
        "fast and not brakes", "once[0, 3 s] stands and fast", "collides_soon",
        "speed > 50 km/h and lead_distance < 30 m",
    ),
    "household": (
        "damages", "spoils", "misplaces", "overheats", "neglects", "shuts_in",
        "puts and held_metal and target == Microwave", "drops and held_brittle",
        "once[0, 3 steps] opens and closes", "turns_on and target_heater",
    ),
}  # fmt: skip
VERBS = ("find", "pick", "open", "put", "close", "turn_on", "turn_off", "drop")
THINGS = ("Fork", "Microwave", "Mug", "Laptop", "Faucet", "Drawer", "Egg", "Book")


def rows(quick: bool) -> Iterator[Row]:
    """Processor times: other work on the machine does not count."""
    count = 2_000 if quick else 20_000
    peer = f"a bare loop over {RULES} questions"
    domains: dict[Domain, list[Event]] = {
        "driving": [driving_event(i) for i in range(count)],
        "household": [household_event(i) for i in range(count)],
    }
    for domain, events in domains.items():
        texts = (CONDITIONS[domain] * RULES)[:RULES]
        trigger = Trigger("tick" if domain == "driving" else "before")
        engine = engine_of(domain, texts, trigger)
        mine, bare = per_event(engine.read, events), per_event(by_hand(), events)
        yield Row(f"{RULES} rules, an event, {domain}", mine, EVENT_BAR_S, peer, bare)
    events = [e for t in labelled_traces("code") for e in t.events]
    before = len(events) / sum(event.moment == "before" for event in events)
    known = library("code")
    engine = engine_of("code", (known.names * 2)[:RULES], Trigger())
    whole = per_event(engine.read, events) * before
    parse = per_event(known.start().read, events) * before
    yield Row(f"{RULES} rules, a program", whole, None, "parsing it alone", parse)
    yield ilp_row()
    for name, domain in SHARED.items():
        if (DATA / f"{name}.jsonl").exists():
            traces = read_labelled(DATA / f"{name}.jsonl")
            took = least_cpu(
                lambda d=domain, t=traces: propose(RuleSet(d), t, library(d)), 1
            )
            what = f"evolution from nothing, {name}"
            yield Row(what, took, LOOP_BAR_S, "the paper", PAPER_S[name])


def engine_of(domain: Domain, texts: Sequence[str], trigger: Trigger) -> Engine:
    rules = tuple(
        Rule(f"r{i}", text, trigger=trigger, enforcement=Enforcement("ask"))
        for i, text in enumerate(texts)
    )
    return Engine(RuleSet(domain, rules), library(domain))


def per_event(read: Callable[[Event], object], events: Sequence[Event]) -> float:
    """The processor time of an event, in the quickest of five goes."""

    def go() -> None:
        for event in events:
            read(event)

    return least_cpu(go, 5) / len(events)


def by_hand() -> Callable[[Event], object]:
    """Twenty questions about an event, as one would write them down quickly."""
    asked = [
        lambda e: (e.values.get("speed") or 0) > 30 and e.action != "open",
        lambda e: e.arguments.get("object") == "Microwave" and e.action == "put",
    ] * (RULES // 2)
    return lambda event: [question(event) for question in asked]


def driving_event(i: int) -> Event:
    values = {
        "speed": 20.0 + i % 40, "lead_distance": 5.0 + i % 60, "lead_speed": 10.0,
        "traffic_light": "red" if i % 50 < 10 else "green", "signal_ahead": True,
        "stop_line_distance": float(i % 80), "braking": i % 3 == 0, "snow": 0.0,
        "required_deceleration": (i % 90) / 10, "pedestrian_distance": None,
        "junction_distance": float(i % 100), "priority_vehicle": i % 7 == 0,
        "priority_pedestrian": False, "arrival_gap": 1.0, "time_to_collision": 3.0,
    }  # fmt: skip
    return Event("tick", values=values, time_s=i / 10)


def household_event(i: int) -> Event:
    return Event(
        "after" if i % 2 else "before",
        VERBS[(i // 2) % len(VERBS)],
        {"object": THINGS[(i // 6) % len(THINGS)]},
        succeeded=True,
        time_s=float(i),
    )


def ilp_row() -> Row:
    """The least hypothesis of runs that are unsafe by three hidden and-groups."""
    times, proven = [], 0
    for seed in range(HYPOTHESES):
        data = hidden(seed, predicates=24, runs=200, events=5)
        groups, found = and_groups(data), []
        times.append(
            least_cpu(lambda: found.append(explain(groups, data.unsafe, data.safe)), 1)  # noqa: B023
        )
        proven += found[-1].proven
    said = "clingo proves it" if installed("clingo") else "clingo: not installed"
    return Row(
        "ILP step, 24 x 200 x 5, the slowest", max(times), ILP_BAR_S,
        f"{said}: {proven} of {HYPOTHESES}",
    )  # fmt: skip


def hidden(seed: int, predicates: int, runs: int, events: int) -> Matrix:
    luck = random.Random(seed)
    truth = []
    for _ in range(3):
        some = luck.sample(range(predicates), luck.choice((2, 3)))
        truth.append([(p, i == 0 or luck.random() < 0.7) for i, p in enumerate(some)])
    made = [
        [
            Occasion(1, sum((luck.random() < 0.3) << i for i in range(predicates)))
            for _ in range(events)
        ]
        for _ in range(runs)
    ]
    unsafe = [
        any(
            all(bool(row >> p & 1) == wanted for p, wanted in group)
            for group in truth
            for _, row, _ in run
        )
        for run in made
    ]
    return matrix([f"p{i}" for i in range(predicates)], ["before"], made, unsafe)


# -- held out


def sets() -> Iterator[tuple[str, Domain, list[LabelledTrace]]]:
    for name, domain in SHARED.items():
        if (DATA / f"{name}.jsonl").exists():
            yield name, domain, read_labelled(DATA / f"{name}.jsonl")
    for domain in SHIPPED:
        yield f"{domain}, shipped", domain, labelled_traces(domain)


def table(name: str, data: Corpus, splits: int) -> Iterator[str]:
    found, missing = compared(data, range(splits), 0.3)
    start = "the expert's rules" if data.start else "nothing"
    labels = data.matrix.unsafe.bit_count(), data.matrix.safe.bit_count()
    yield f"{name}: {labels[0]} unsafe, {labels[1]} safe; evolved from {start}"
    lines = [("", "F1, mean", "least", "precision", "recall")]
    for each in found:
        row = each.as_dict()
        cells = each.mean, each.least, row["precision"], row["recall"]
        lines.append((each.name, *(f"{value:.3f}" for value in cells)))
    yield from aligned(lines)
    yield from (f"{who}: {why}" for who, why in missing.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    options = parser.parse_args()
    for name, domain, traces in sets():
        for start in (RuleSet(domain), expert_rules(domain)):
            data = corpus(start, traces, library(domain))
            print("\n".join(table(name, data, options.splits)), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
