"""What twenty rules cost an event, in each domain, and what evolution takes.

The same events are read by the engine with twenty rules, and by a bare loop that asks
twenty questions written by hand, for what the machine itself costs at this moment.
Programs are parsed anew at every event, which is told apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import evolving
from measuring import Row

from forewarn.monitors.rules.engine import Engine
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import Domain, Event
from forewarn.monitors.rules.rule import Enforcement, Rule, RuleSet, Trigger
from forewarn.scenarios.labelled import labelled_traces

BAR_S = 20e-6
RULES = 20
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
    count = 2_000 if quick else 20_000
    peer = f"a bare loop over {RULES} questions"
    for domain, events in (
        ("driving", driving(count)),
        ("household", household(count)),
    ):
        rules, engine = compiled(domain)
        mine = best(engine.reset, engine.read, events)
        bare = best(lambda: None, by_hand(), events)
        yield Row(f"{RULES} rules, an event, {domain}", mine, BAR_S, peer, bare)
    yield from parsing()
    yield from evolving.rows(quick)


def compiled(domain: Domain) -> tuple[RuleSet, Engine]:
    texts = (CONDITIONS[domain] * RULES)[:RULES]
    trigger = Trigger("tick" if domain == "driving" else "before")
    rules = tuple(
        Rule(f"r{i}", text, trigger=trigger, enforcement=Enforcement("ask"))
        for i, text in enumerate(texts)
    )
    rule_set = RuleSet(domain, rules)
    return rule_set, Engine(rule_set, library(domain))


def best(
    begin: Callable[[], object],
    read: Callable[[Event], object],
    events: Sequence[Event],
) -> float:
    """Processor time an event, in the quickest of five goes."""
    goes = []
    for _ in range(5):
        begin()
        began = time.process_time()
        for event in events:
            read(event)
        goes.append(time.process_time() - began)
    return min(goes) / len(events)


def by_hand() -> Callable[[Event], object]:
    """Twenty questions about an event, as one would write them down quickly."""
    asked = [
        lambda e: (e.values.get("speed") or 0) > 30 and e.action != "open",
        lambda e: e.arguments.get("object") == "Microwave" and e.action == "put",
    ] * (RULES // 2)
    return lambda event: [question(event) for question in asked]


def driving(count: int) -> list[Event]:
    found = []
    for i in range(count):
        values = {
            "speed": 20.0 + i % 40, "lead_distance": 5.0 + i % 60, "lead_speed": 10.0,
            "traffic_light": "red" if i % 50 < 10 else "green", "signal_ahead": True,
            "stop_line_distance": float(i % 80), "braking": i % 3 == 0, "snow": 0.0,
            "required_deceleration": (i % 90) / 10, "pedestrian_distance": None,
            "junction_distance": float(i % 100), "priority_vehicle": i % 7 == 0,
            "priority_pedestrian": False, "arrival_gap": 1.0, "time_to_collision": 3.0,
        }  # fmt: skip
        found.append(Event("tick", values=values, time_s=i / 10))
    return found


def household(count: int) -> list[Event]:
    return [
        Event(
            "after" if i % 2 else "before",
            VERBS[(i // 2) % len(VERBS)],
            {"object": THINGS[(i // 6) % len(THINGS)]},
            succeeded=True,
            time_s=float(i),
        )
        for i in range(count)
    ]


def parsing() -> Iterator[Row]:
    """What parsing a program costs beside the rules about it."""
    events = [e for t in labelled_traces("code") for e in t.events]
    before = sum(event.moment == "before" for event in events)
    known = library("code")
    texts = (known.names * 2)[:RULES]
    rules = RuleSet("code", tuple(Rule(f"r{i}", t) for i, t in enumerate(texts)))
    engine = Engine(rules, known)
    whole = best(engine.reset, engine.read, events) * len(events) / before
    state = known.start()
    parse = best(lambda: None, state.read, events) * len(events) / before
    yield Row(f"{RULES} rules, a program", whole, None, "parsing it alone", parse)
