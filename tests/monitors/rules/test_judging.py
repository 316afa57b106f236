"""Rules in a guard: one seam with the risk, and what it decides is replayed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput, SignalFault
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.rules.judging import RuleJudge
from forewarn.monitors.rules.rule import InvalidRules, RuleSet, rules_from
from forewarn.plugins.loop.replay import make_judge
from forewarn.plugins.programs.rules import judge_of


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


def test_past_actions_count_if_the_frame_reports_success() -> None:
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


def test_an_action_missing_from_the_frame_did_not_happen() -> None:
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


def test_a_rule_in_shadow_mode_only_reports() -> None:
    judge = RuleJudge(
        rule_set(
            "name: a, before: drop, when: held_brittle, mode: shadow",
            "name: b, before: drop, when: held_food, enforce: ask",
        )
    )
    said = judge.judge(frame(0, holding="Mug"), Action("drop"))
    assert said is not None and said.kind == "proceed"
    assert said.reason == "the rule a, in shadow mode, would stop"
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


def test_a_judge_is_restored_from_its_record() -> None:
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


LACKING = "name: close, tick: any, when: lead_distance < 5 m, enforce: stop"


def driven(judge: RuleJudge, *frames: Mapping[str, Any]) -> list[str]:
    """What a judge says of each frame: a rule's name, "fault" or ""."""
    found = []
    for sequence, values in enumerate(frames):
        try:
            said = judge.judge(frame(sequence, **values), None)
        except SignalFault:
            found.append("fault")
        else:
            found.append("" if said is None else said.rule)
    return found


def test_a_rule_remembers_frames_on_which_another_rule_lacks_its_signal() -> None:
    crashed = "name: crashed, tick: any, when: once pedestrian_distance < 1 m"
    far = {"lead_distance": 50.0, "pedestrian_distance": 9.0}
    for rules in ((LACKING, crashed), (crashed, LACKING)):
        judge = RuleJudge(rule_set(*rules, domain="driving"))
        said = driven(judge, far, {"pedestrian_distance": 0.5}, far, far)
        assert said == ["", "fault", "crashed", "crashed"]


def test_a_rule_remembers_through_a_frame_that_lacks_its_own_signal() -> None:
    rule = "name: crashed, tick: any, when: once pedestrian_distance < 1 m"
    judge = RuleJudge(rule_set(rule, domain="driving"))
    near, far = {"pedestrian_distance": 0.5}, {"pedestrian_distance": 9.0}
    assert driven(judge, near, {}, far) == ["crashed", "fault", "crashed"]


@pytest.mark.parametrize("odd", [float("nan"), "3", [3], 10**400])
def test_a_value_of_another_type_is_a_fault_and_memory_is_kept(odd: object) -> None:
    crashed = "name: crashed, tick: any, when: once pedestrian_distance < 1 m"
    judge = RuleJudge(rule_set(LACKING, crashed, domain="driving"))
    far = {"lead_distance": 50.0, "pedestrian_distance": 9.0}
    said = driven(judge, far, {"lead_distance": odd, "pedestrian_distance": 0.5}, far)
    assert said[1:] in (["fault", "crashed"], ["crashed", "crashed"])


@pytest.mark.parametrize(
    "when", ["lead_speed > 100 km/h", "lead_speed + 1 km/h > 3 km/h"]
)
def test_a_boolean_is_not_a_number(when: str) -> None:
    judge = RuleJudge(
        rule_set(f"name: fast, tick: any, when: {when}", domain="driving")
    )
    slow = {"lead_speed": 1.0}
    assert driven(judge, slow, {"lead_speed": True}, slow) == ["", "fault", ""]


def test_what_was_done_is_read_though_another_rule_lacks_its_signal() -> None:
    judge = RuleJudge(
        rule_set(
            "name: poured, after: pour, when: is_open(Fridge)",
            "name: drops, before: drop, when: held_filled",
        )
    )
    judge.judge(frame(0, holding="Mug"), Action("fill_liquid", {"object": "Mug"}))
    done = {"last_action_succeeded": True, "holding": "Mug"}
    judge.judge(frame(1, **done), Action("pour", {"object": "Sink"}))
    with pytest.raises(SignalFault):
        judge.judge(frame(2, **done), Action("fill_liquid", {"object": "Mug"}))
    said = judge.judge(frame(3, **done), Action("drop"))
    assert said is not None
    assert said.rule == "drops"


@pytest.mark.parametrize("name", ["finish", "stop", "done"])
def test_a_tool_that_is_called_like_an_end_is_a_tool_too(name: str) -> None:
    for trigger in ("any", name):
        judge = RuleJudge(rule_set(f"name: a, before: {trigger}, enforce: skip"))
        said = judge.judge(frame(0), Action(name))
        assert said is not None
        assert said.rule == "a"
    judge = RuleJudge(rule_set("name: a, finish: any, enforce: skip"))
    assert judge.judge(frame(0), Action(name)) is not None
    assert judge.judge(frame(1), Action("put")) is None


def test_a_rule_of_every_tick_is_asked_though_an_action_is_proposed() -> None:
    judge = RuleJudge(
        rule_set("name: fast, tick: any, when: speed > 50 km/h", domain="driving")
    )
    said = judge.judge(frame(0, speed=80.0), Action("control", {"acceleration": 1.0}))
    assert said is not None
    assert said.rule == "fast"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bash", {"command": "rm -rf /"}),
        ("bash", {"cmd": "rm -rf /"}),
        ("bash", {"input": "rm -rf /"}),
        ("execute_shell", {"text": "rm -rf /"}),
        ("run", {"command": ["rm", "-rf", "/"]}),
        ("run", {"options": {"command": "rm -rf /"}}),
        ("run", {"steps": [{"script": "rm -rf /"}]}),
        ("python_repl", {"code": "import shutil; shutil.rmtree('/')"}),
        ("python_repl", {"source": "import shutil; shutil.rmtree('/')"}),
        ("python_repl", {"code": "rm -rf /"}),
        ("python_repl", {"query": "import os\nos.system('rm -rf /')"}),
        ("python_repl", {"input": "import os\nos.system('rm -rf /')"}),
        ("notebook", {"code": "print(1)", "command": "rm -rf /"}),
    ],
)
def test_rules_of_code_look_at_every_argument_that_is_run(
    tool: str, arguments: dict[str, object]
) -> None:
    judge = RuleJudge(rule_set("name: a, before: any, when: deletes", domain="code"))
    assert judge.judge(frame(0), Action(tool, arguments)) is not None


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bash", {"command": "ls -l"}),
        ("search", {"query": "what does rm -rf / do"}),
        ("write_mail", {"text": "never type rm -rf /"}),
        ("python_repl", {"code": "print('rm -rf /')"}),
    ],
)
def test_arguments_that_are_not_run_are_not_checked_as_code(
    tool: str, arguments: dict[str, object]
) -> None:
    judge = RuleJudge(rule_set("name: a, before: any, when: deletes", domain="code"))
    assert judge.judge(frame(0), Action(tool, arguments)) is None


def test_a_program_that_is_too_long_to_be_read_is_a_fault() -> None:
    judge = RuleJudge(rule_set("name: a, before: any, when: deletes", domain="code"))
    command = "rm -rf / # " + "x" * 60_000
    with pytest.raises(SignalFault, match="longer than 50000 characters"):
        judge.judge(frame(0), Action("bash", {"command": command}))


def test_a_rule_of_another_domain_is_not_left_unasked() -> None:
    rules = "name: a, domain: code, before: any, when: deletes"
    with pytest.raises(InvalidRules, match="only rules for household are checked"):
        RuleJudge(rule_set(rules))
    RuleJudge(rule_set(f"{rules}, mode: 'off'"))


def test_rules_about_actions_that_there_are_not_are_named() -> None:
    judge = RuleJudge(
        rule_set(
            "name: a, before: [put, trhow]",
            "name: b, before: trhow",
            "name: c, before: any",
            "name: d, before: trhow, mode: shadow",
        )
    )
    assert list(judge.unmatched(["Put", "turn_on"])) == ["b"]


@pytest.mark.parametrize("odd", [5, "text", [[1]], [{}], None, True])
def test_predicates_that_are_no_mapping_are_rejected(odd: object) -> None:
    kept = {"format": "forewarn.rules/1", "domain": "driving", "rules": []}
    with pytest.raises(InvalidInput, match="not a mapping"):
        judge_of(kept | {"predicates": [odd]})
