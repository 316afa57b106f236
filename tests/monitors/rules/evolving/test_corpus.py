"""Rules as bits, and rules again: what is written means what the bits say."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.monitors.rules.evolving.bits.bench import NEW, Bench, Entry
from forewarn.monitors.rules.evolving.bits.matrix import Clause, Literal
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
def test_what_is_written_fires_where_the_bits_say(
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
        if literal.opposite not in clause.literals:
            entries[number] = Entry(number, clause.plus(literal))
    entries.append(Entry(NEW, Clause(0, (Literal(0), Literal(1, False)))))
    written = known.written(tuple(entries))
    again = rules_from(written.text(), "written")
    called = Bench(known.matrix).called(entries)
    ids = {t.id for i, t in enumerate(known.traces) if called >> i & 1}
    assert set(score(again, known.traces, KNOWN).called) == ids


def test_what_does_not_change_stays_word_for_word() -> None:
    trace = labelled_from(
        {"id": "t", "domain": "household", "label": "safe", "events": [
            {"verb": "find", "object": "Mug", "success": True}
        ]}
    )  # fmt: skip
    known = corpus(RULES, [trace], KNOWN)
    entries = tuple(Entry(i, clause) for i, clause in enumerate(known.start))
    assert known.written(entries) == RULES
