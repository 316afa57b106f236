"""Rules as bits, and rules again: what is written means what the bits say."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.monitors.rules.evolving.bits import (
    NEW,
    Bench,
    Clause,
    Entry,
    Literal,
    members,
)
from forewarn.monitors.rules.evolving.corpus import corpus
from forewarn.monitors.rules.labelled import LabelledTrace, labelled_from
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.rule import rules_from
from forewarn.monitors.rules.scoring import score

RULES = rules_from(
    """
format: forewarn.rules/1
domain: household
rules:
- {name: tap, before: any, when: "once[0, 2 steps] runs_tap and not slices"}
- {name: mug, before: [pick, turn on], when: "object == Mug or held == Mug"}
- {name: end, finish: any, when: "not (leaves_flame or leaves_tap_running)"}
- {name: done, after: throw, when: "not not throws", unless: held_soft}
- {name: sleeps, before: any, when: breaks, mode: "off"}
""",
    "rules",
)
KNOWN = library("household")
VERBS = ("find", "pick", "put", "throw", "turn_on", "turn_off", "slice", "break")
THINGS = ("Mug", "Faucet", "Candle", "Pillow", "Knife")

events = st.fixed_dictionaries(
    {
        "verb": st.sampled_from(VERBS),
        "object": st.sampled_from(THINGS),
        "success": st.booleans(),
    }
)
traces = st.lists(
    st.tuples(
        st.lists(events, min_size=1, max_size=6), st.sampled_from(["safe", "unsafe"])
    ),
    min_size=1,
    max_size=5,
).map(
    lambda rows: [
        labelled_from(
            {"id": f"t{i}", "domain": "household", "label": label, "events": events}
        )
        for i, (events, label) in enumerate(rows)
    ]
)


@settings(max_examples=25)
@given(traces, st.data())
def test_written_rules_fire_like_their_bits(
    found: list[LabelledTrace], data: st.DataObject
) -> None:
    known = corpus(RULES, found, KNOWN)
    count = len(known.matrix.predicates)
    entries = [Entry(i, clause) for i, clause in enumerate(known.start)]
    for number in range(len(entries)):
        literal = data.draw(
            st.builds(Literal, st.integers(0, count - 1), st.booleans())
        )
        clause = entries[number].clause
        atom = literal.predicate >= len(KNOWN.names)
        opposite = Literal(literal.predicate, not literal.wanted)
        if not atom and opposite not in clause.literals:
            entries[number] = Entry(number, clause.plus(literal))
    entries.append(Entry(NEW, Clause(0, (Literal(0), Literal(1, False)))))
    written = known.written(tuple(entries))
    again = rules_from(written.text(), "written")
    called = Bench(known.matrix).called(entries)
    ids = {known.traces[run].id for run in members(called)}
    assert set(score(again, known.traces, KNOWN).called) == ids


def test_unchanged_rules_keep_their_text() -> None:
    trace = labelled_from(
        {"id": "t", "domain": "household", "label": "safe", "events": [
            {"verb": "find", "object": "Mug", "success": True}
        ]}
    )  # fmt: skip
    known = corpus(RULES, [trace], KNOWN)
    entries = tuple(Entry(i, clause) for i, clause in enumerate(known.start))
    assert known.written(entries) == RULES


DRIVING = rules_from(
    """
format: forewarn.rules/1
domain: driving
rules:
- {name: snow, tick: any, when: "snow > 0 and fast"}
- {name: clear, tick: any, when: "fast", unless: [snow > 0, "visibility < 100 m"]}
- {name: either, tick: any, when: "fast or snow > 0.5"}
- {name: since, tick: any, when: "once[0, 2 steps] snow > 0 and not waited"}
- {name: never, tick: any, when: "historically[0, 1 s] not (visibility < 100 m)"}
""",
    "rules",
)
moments = st.fixed_dictionaries(
    {},
    optional={
        "speed": st.sampled_from([0.0, 20.0, 60.0]),
        "snow": st.sampled_from([0.0, 0.4, 0.8]),
        "visibility": st.sampled_from([50.0, 1000.0]),
    },
)


@settings(max_examples=40)
@given(st.lists(st.lists(moments, min_size=1, max_size=5), min_size=1, max_size=4))
def test_a_signal_that_is_missing_is_neither_true_nor_false(
    drives: list[list[dict[str, float]]],
) -> None:
    """Bits and rules agree on what fires, and on what nobody can say."""
    found = [
        labelled_from(
            {
                "id": f"d{i}",
                "domain": "driving",
                "label": "safe",
                "events": [
                    {"time_s": float(second), "signals": signals}
                    for second, signals in enumerate(drive)
                ],
            }
        )
        for i, drive in enumerate(drives)
    ]
    known = library("driving")
    bits = corpus(DRIVING, found, known)
    said = score(DRIVING, found, known)
    entries = [Entry(i, clause) for i, clause in enumerate(bits.start)]
    called = Bench(bits.matrix).called(entries)
    assert set(said.called) == {found[run].id for run in members(called)}
    assert set(said.unknown) <= set(bits.unknown)
    for name in ("snow", "visibility"):
        lacked = any(name not in signals for drive in drives for signals in drive)
        assert (name in bits.unknown) == lacked


def test_a_part_of_a_condition_is_unknown_at_another_moment() -> None:
    """A learner must not take `not (object == Mug)` for true of every end."""
    steps = [{"verb": "pick", "object": "Mug", "success": True}]
    row = {"id": "a", "domain": "household", "label": "unsafe", "events": steps}
    data = corpus(RULES, [labelled_from(row)], KNOWN)
    part = next(i for i, p in enumerate(data.matrix.predicates) if "object" in p)
    end = next(i for i, kind in enumerate(data.matrix.kinds) if kind == "finish")
    for wanted in (True, False):
        assert not data.matrix.fires(Clause(end, (Literal(part, wanted),))).any()
