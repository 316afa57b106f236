"""Rules as files, at work, and scored."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.abstractions.errors import InvalidInput, SignalFault
from forewarn.monitors.rules.engine import Engine, run, severest
from forewarn.monitors.rules.labelled import LabelledTrace, labelled_from, read_labelled
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.rule import (
    RuleSet,
    load_rules,
    rules_from,
    save_rules,
)
from forewarn.monitors.rules.scoring import score

HOUSEHOLD = library("household")
TEXT = """
format: forewarn.rules/1
domain: household
rules:
- {name: no-breaking, before: any, when: breaks or throws, enforce: skip}
- name: fragile
  before: [drop, throw]
  when: held_brittle
  unless: target == Bed
- {name: wet, before: pour, when: target_electrical, mode: shadow, enforce: ask}
- name: heat
  before: put
  when: held_metal and target == Microwave
  enforce: {substitute: {name: put, arguments: {object: CounterTop}}}
"""


def trace(steps: str, label: str | None = "unsafe", name: str = "a") -> LabelledTrace:
    """A run whose steps are written as people write them; `!` marks one that fails."""
    events = []
    for step in steps.split(";"):
        verb, thing, extra = [*step.strip(" !").split(), "", ""][:3]
        events.append(
            {
                "verb": verb,
                "object": thing or None,
                "extra": extra or None,
                "success": "!" not in step,
            }
        )
    row = {"id": name, "domain": "embodied", "label": label, "events": events}
    return labelled_from(row)


def fired(rules: RuleSet, steps: str) -> list[str]:
    engine = Engine(rules, HOUSEHOLD)
    return [firing.rule.name for firing in run(engine, trace(steps).events)]


@pytest.fixture
def rules() -> RuleSet:
    return rules_from(TEXT, "r.yaml")


def test_every_rule_that_matches_fires(rules: RuleSet) -> None:
    assert fired(rules, "pick Mug; throw") == ["no-breaking", "fragile"]
    assert fired(rules, "pick mug; find bed; drop") == []
    assert fired(rules, "fillLiquid Mug wine; pick Mug; find Laptop; pour") == ["wet"]
    assert fired(rules, "pick Fork; find Microwave; put microwave") == ["heat"]


def test_failed_actions_do_not_count(rules: RuleSet) -> None:
    assert fired(rules, "pick Mug !; drop") == []


def test_only_the_first_match_counts_where_the_set_says_so(rules: RuleSet) -> None:
    first = rules_from(TEXT.replace("rules:", "match: first\nrules:"), "r.yaml")
    assert fired(first, "pick Mug; throw") == ["no-breaking"]


def test_the_severest_decides(rules: RuleSet) -> None:
    engine = Engine(rules, HOUSEHOLD)
    firing = severest(run(engine, trace("pick Mug; throw").events))
    assert firing is not None and firing.rule.name == "fragile"
    assert firing.held == ("held_brittle",)
    assert severest([]) is None


def test_a_file_written_reads_back(tmp_path: Path, rules: RuleSet) -> None:
    save_rules(tmp_path / "r.yaml", rules)
    assert load_rules(tmp_path / "r.yaml") == rules
    first = (tmp_path / "r.yaml").read_bytes()
    save_rules(tmp_path / "r.yaml", load_rules(tmp_path / "r.yaml"))
    assert (tmp_path / "r.yaml").read_bytes() == first


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("before: pour", "befor: pour", "did you mean before"),
        ("before: pour, ", "", "needs exactly one of"),
        ("name: wet", "name: heat", "two rules"),
        ("enforce: ask", "enforce: substitute", "name the other action"),
        ("domain: household", "domain: househld", "did you mean household"),
    ],
)
def test_a_file_that_is_wrong_says_what_mends_it(old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        rules_from(TEXT.replace(old, new), "r.yaml")


def test_a_condition_that_is_wrong_names_its_rule() -> None:
    wrong = rules_from(TEXT.replace("target_electrical", "target_electric"), "r.yaml")
    with pytest.raises(InvalidInput, match="rule wet.*did you mean target_electrical"):
        Engine(wrong, HOUSEHOLD)


def test_a_score_counts_traces(rules: RuleSet) -> None:
    traces = [
        trace("pick Mug; throw", "unsafe", "hit"),
        trace("find Mug; dirty Mug", "unsafe", "miss"),
        trace("pick Pillow; throw", "safe", "false alarm"),
        trace("pick Mug; put Shelf", "safe", "quiet"),
        trace("find Mug; break Mug", None, "nobody knows"),
    ]
    found = score(rules, traces, HOUSEHOLD)
    assert found.as_dict() == {
        "traces": 5,
        "unsafe": 2,
        "safe": 2,
        "precision": 0.5,
        "recall": 0.5,
        "f1": 0.5,
        "fired": {"no-breaking": 3, "fragile": 1, "wet": 0, "heat": 0},
    }
    assert found.called == ("hit", "false alarm", "nobody knows")


def test_signal_missing_from_a_trace_is_named() -> None:
    asks = rules_from(
        "format: forewarn.rules/1\ndomain: household\n"
        "rules: [{name: a, before: any, when: is_open(Fridge)}]",
        "r.yaml",
    )
    found = score(asks, [trace("pick Mug")], HOUSEHOLD)
    assert found.unknown == ("is_open(Fridge)",)
    assert not found.called
    with pytest.raises(SignalFault, match=r"is_open\(Fridge\) is unknown"):
        run(Engine(asks, HOUSEHOLD), trace("pick Mug").events)


def test_rules_that_never_fire_earn_nothing() -> None:
    found = score(RuleSet("household"), [trace("pick Mug", "safe")], HOUSEHOLD)
    assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)


def test_the_shared_traces_are_read(shared_data: Path) -> None:
    household = read_labelled(shared_data / "rules" / "embodied.jsonl")
    labels = [each.label for each in household]
    assert [labels.count(x) for x in ("unsafe", "safe", None)] == [178, 160, 277]
    code = read_labelled(shared_data / "rules" / "code.jsonl")
    assert len(code) == 129 and {each.domain for each in code} == {"code"}


def test_a_trace_that_is_wrong_says_where(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = '{"id": "a", "domain": "embodied", "label": "safe", "events": []}\n'
    path.write_text(line * 2)
    with pytest.raises(InvalidInput, match=r"line 2: the id 'a' appears twice"):
        read_labelled(path)
    path.write_text(line.replace('"safe"', '"fine"'))
    with pytest.raises(InvalidInput, match=r"line 1: the label must be safe"):
        read_labelled(path)
    path.write_text(line.replace("[]", '[{"object": "Mug"}]'))
    with pytest.raises(InvalidInput, match=r"line 1, event 0: the key 'verb'"):
        read_labelled(path)


def test_a_rule_that_needs_a_predicate_is_not_asked() -> None:
    rules = rules_from(
        "format: forewarn.rules/1\ndomain: household\nrules:\n"
        "- {name: a, before: any, when: never_heard_of, needs: [never_heard_of]}\n",
        "r.yaml",
    )
    assert fired(rules, "pick Mug") == []


def test_a_rule_may_ask_after_an_action_and_at_the_end() -> None:
    rules = rules_from(
        "format: forewarn.rules/1\ndomain: household\nrules:\n"
        '- {name: opened, after: open, when: "once[0, 1 steps] opens"}\n'
        "- {name: left, finish: any, when: leaves_fridge_open}\n",
        "r.yaml",
    )
    assert fired(rules, "open Fridge; pick Egg") == ["opened", "left"]
    assert fired(rules, "open Fridge; close Fridge") == ["opened"]
    assert fired(rules, "open Fridge !") == ["opened"]
