"""Rules in a guard: one seam with the risk, and what it decides is replayed."""

from __future__ import annotations

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.rules.judging import RuleJudge, judge_of
from forewarn.monitors.rules.rule import RuleSet, rules_from
from forewarn.plugins.loop.replay import make_judge


def rule_set(*rules: str, domain: str = "household", match: str = "all") -> RuleSet:
    head = f"format: forewarn.rules/1\ndomain: {domain}\nmatch: {match}\nrules:\n"
    return rules_from(head + "".join(f"- {{{rule}}}\n" for rule in rules), "r.yaml")


def frame(sequence: int, **values: object) -> Frame:
    return Frame(float(sequence), sequence, values)


def put(thing: str) -> Action:
    return Action("put", {"object": thing})


def test_a_rule_judges_the_action_proposed() -> None:
    judge = RuleJudge(
        rule_set("name: a, before: put, when: heats_metal, enforce: skip")
    )
    judge.reset()
    held = frame(0, holding="Fork")
    assert judge.judge(held, put("Shelf")) is None
    said = judge.judge(held, put("Microwave"))
    assert said is not None
    assert (said.kind, said.rule, said.because) == ("skip", "a", ("heats_metal",))
    assert said.reason == "the rule a fires: heats_metal"
    assert judge.rules == {"a": "heats_metal"}


def test_what_was_done_is_followed_from_the_frames() -> None:
    judge = RuleJudge(rule_set("name: a, before: drop, when: held_filled"))
    fill = Action("fill_liquid", {"object": "Mug", "liquid": "wine"})
    for done, expected in ((True, True), (False, False)):
        judge.reset()
        judge.judge(frame(0, holding="Mug"), fill)
        after = frame(
            1, holding="Mug", last_action="fill_liquid", last_action_succeeded=done
        )
        said = judge.judge(after, Action("drop"))
        assert (said is not None) == expected


def test_what_the_frame_says_was_not_done_did_not_happen() -> None:
    judge = RuleJudge(rule_set("name: a, before: drop, when: held_filled"))
    judge.judge(frame(0, holding="Mug"), Action("fill_liquid", {"object": "Mug"}))
    waited = frame(1, holding="Mug", last_action="wait", last_action_succeeded=True)
    assert judge.judge(waited, Action("drop")) is None


def test_an_episode_begins_with_nothing_remembered() -> None:
    judge = RuleJudge(rule_set("name: a, before: any, when: once opens and drops"))
    judge.judge(frame(0, holding="Mug"), Action("open", {"object": "Fridge"}))
    assert judge.judge(frame(1, holding="Mug"), Action("drop")) is not None
    judge.reset()
    assert judge.judge(frame(0, holding="Mug"), Action("drop")) is None


def test_a_rule_in_shadow_only_says_what_it_would_do() -> None:
    judge = RuleJudge(
        rule_set(
            "name: a, before: drop, when: held_brittle, mode: shadow",
            "name: b, before: drop, when: held_food, enforce: ask",
        )
    )
    said = judge.judge(frame(0, holding="Mug"), Action("drop"))
    assert said is not None and said.kind == "proceed"
    assert said.reason == "in shadow, the rule a would stop"
    said = judge.judge(frame(1, holding="Egg"), Action("drop"))
    assert said is not None and (said.kind, said.rule) == ("ask", "b")


@pytest.mark.parametrize(("match", "rule"), [("first", "a"), ("all", "b")])
def test_first_match_or_severest(match: str, rule: str) -> None:
    rules = rule_set(
        "name: a, before: drop, enforce: alert", "name: b, before: drop", match=match
    )
    said = RuleJudge(rules).judge(frame(0), Action("drop"))
    assert said is not None and said.rule == rule


def test_a_planners_settings_become_a_cap() -> None:
    judge = RuleJudge(
        rule_set(
            "name: a, tick: any, when: speed > 20 km/h,"
            ' enforce: {slow: {"real:preference:Max_planning_speed": 5.0}}',
            domain="driving",
        )
    )
    assert judge.judge(frame(0, speed=10.0), None) is None
    said = judge.judge(frame(1, speed=30.0), None)
    assert said is not None and said.kind == "slow"
    assert said.cap_kmh == pytest.approx(18.0)
    assert said.because == ("real:preference:Max_planning_speed = 5",)


def test_the_end_of_a_run_is_asked_about() -> None:
    judge = RuleJudge(rule_set("name: a, finish: any, when: neglects, enforce: ask"))
    tap = frame(0, **{"is_toggled(Faucet)": True})
    assert judge.judge(tap, Action("wait")) is None
    assert judge.judge(tap, Action("finish")) is not None
    off = frame(1, **{"is_toggled(Faucet)": False})
    assert judge.judge(off, Action("finish")) is None


def test_a_judge_is_made_again_of_its_record() -> None:
    predicates = {
        "format": "forewarn.predicates/1",
        "domain": "household",
        "predicates": {"risky": {"doc": "It is.", "when": "drops and held_brittle"}},
    }
    judge = RuleJudge(rule_set("name: a, before: any, when: risky"), [predicates])
    for again in (judge_of(judge.as_dict()), make_judge(judge.as_dict())):
        assert again.as_dict() == judge.as_dict()
        said = again.judge(frame(0, holding="Mug"), Action("drop"))
        assert said is not None and said.rule == "a"
