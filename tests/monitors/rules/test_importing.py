"""AgentSpec's text form as people write it, with all its accidents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn import read_judge
from forewarn.abstractions.errors import InvalidInput, SignalFault, TooLarge
from forewarn.abstractions.frame import Frame
from forewarn.cli import main
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.rules.agentspec import (
    MAX_BYTES,
    MAX_RULES,
    Imported,
    import_rules,
    read_agentspec,
    rule_files,
)
from forewarn.monitors.rules.engine import Engine, run
from forewarn.monitors.rules.labelled import read_labelled
from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.predicates import DOMAINS, Domain, Event, Library
from forewarn.monitors.rules.rule import Rule
from forewarn.plugins.loop.replay import make_judge
from forewarn.plugins.programs.rules import add_functions

LIBRARIES: dict[Domain, Library] = {domain: library(domain) for domain in DOMAINS}

MESSY = """\
// kitchen rules, first draft
=== below: heat
rule @no_candles
trigger
    turn on
check
    is_candle    // the small ones too
enforce
    stop
end

case 3
rule @`look_first
trigger Kitchen.PutItem | any.Stow
check
    not true
    !!is_candle & is_into_microwave
enforce
    user_inspection("is it # really // safe?")
endrule @glued
trigger
    act Throw
check
    True
enforce
    llm_self_examine
end
# settings for a planner
rule @creep
trigger
    state_change
check
    trafficlight_color(3) & traffic_light_disL(7.5)
enforce
    real:preference:Max_planning_speed = 5.0
    real:obstacle:Min_stop_distance = 10
end
rule @tidy_up
trigger finish
check true
enforce invoke_action(close, {"object": "Fridge", "times": 2, "why": reason["x"]})
end
rule @who_knows
trigger put
check
    llm_judge(cur["a"], "is it, say, (safe)?")
    never_heard_of
enforce stop
end
"""


def imported(tmp_path: Path, text: str = MESSY, exact: bool = False) -> Imported:
    path = tmp_path / "mine.ar"
    path.write_text(text)
    return import_rules([path], LIBRARIES, exact=exact)


def rule_of(found: Imported, name: str) -> Rule:
    return next(rule for rule in found.rules.rules if rule.name == name)


def test_a_messy_file_is_read_whole(tmp_path: Path) -> None:
    found = imported(tmp_path)
    assert [rule.name for rule in found.rules.rules] == [
        "no_candles", "look_first", "glued", "creep", "tidy_up", "who_knows",
    ]  # fmt: skip
    assert found.as_dict() == {
        "files": 1,
        "rules": 6,
        "runnable": 4,
        "needs": [
            {"rule": "look_first", "predicate": "is_candle"},
            {"rule": "look_first", "predicate": "is_into_microwave"},
            {"rule": "who_knows", "predicate": 'llm_judge(cur["a"], "is it, say, '
             '(safe)?")'},
            {"rule": "who_knows", "predicate": "never_heard_of"},
        ],
        "unread": [],
    }  # fmt: skip


def test_imported_rules_keep_trigger_condition_and_enforcement(tmp_path: Path) -> None:
    found = imported(tmp_path)
    candles = rule_of(found, "no_candles")
    assert candles.trigger.actions == ("turn_on",)
    assert candles.when == "object == Candle"
    look = rule_of(found, "look_first")
    assert look.trigger.actions == ("Kitchen.PutItem", "Stow")
    assert look.enforcement.kind == "ask"
    assert look.when == "not (true)"
    assert rule_of(found, "glued").enforcement.kind == "reflect"
    creep = rule_of(found, "creep")
    assert (creep.trigger.moment, creep.domain) == ("tick", "driving")
    assert creep.when == ("light_red and (signal_ahead and stop_line_distance < 7.5 m)")
    assert creep.enforcement.parameters == {
        "real:preference:Max_planning_speed": 5.0,
        "real:obstacle:Min_stop_distance": 10.0,
    }
    tidy = rule_of(found, "tidy_up")
    assert tidy.trigger.moment == "finish"
    assert tidy.enforcement.action is not None
    assert tidy.enforcement.action.arguments == {
        "object": "Fridge", "times": 2, "why": "reason['x']",
    }  # fmt: skip


def test_a_rule_that_needs_a_predicate_is_never_silently_true(tmp_path: Path) -> None:
    found = imported(tmp_path, MESSY.replace("state_change", "put"))
    engine = Engine(found.rules, LIBRARIES[found.rules.domain])
    asked = {each.rule.name for each in engine.rules}
    assert "who_knows" not in asked
    assert run(engine, [Event("before", "put", {"object": "Mug"})]) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("rule @a\nend", "has no trigger"),
        ("rule @a\ntrigger\ncheck\n true\nenforce\n stop\nend", "has no trigger"),
        ("rule @a\ntrigger put\ncheck\n true\nend", "has no enforcement"),
        ("nothing here at all", "the file has no rule"),
    ],
)
def test_unreadable_rule_is_reported_with_its_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    found = imported(tmp_path, "\n" + text)
    ((_, line, said),) = found.unread
    assert problem in said and line in (1, 2)


def test_names_that_stand_twice_are_numbered(tmp_path: Path) -> None:
    found = imported(tmp_path, MESSY + MESSY)
    assert rule_of(found, "glued-2").trigger == rule_of(found, "glued").trigger


def test_every_name_in_the_table_means_something() -> None:
    from forewarn.abstractions.files import read_yaml
    from forewarn.monitors.rules import agentspec
    from forewarn.monitors.rules.condition import parse_condition

    table = read_yaml(Path(agentspec.__file__).with_name("agentspec.yaml"))
    for domain in DOMAINS:
        for meant in table[domain].values():
            texts = meant.values() if isinstance(meant, dict) else [meant]
            for text in texts:
                parse_condition(text.replace("{x}", "2"), library(domain))


RULE = "rule @r\ntrigger\n    {}\ncheck\n    {}\nenforce\n    stop\nend\n"


@pytest.mark.parametrize(
    ("trigger", "event", "plain", "exact"),
    [
        ("turn_on", Event("before", "turn_on", text="turn on Candle"), 1, 1),
        ("turn on", Event("before", "turn_on", text="turn on Candle"), 1, 1),
        ("Turn_On", Event("before", "turn_on", text="turn on Candle"), 1, 0),
        ("fillliquid", Event("before", "fill_liquid", text="fillLiquid Mug"), 1, 0),
        ("put", Event("before", "put_away", text="put away Mug"), 0, 1),
        ("any.PythonREPL", Event("before", "python_repl", {"code": ""}), 1, 0),
    ],
)
def test_upstream_exact_keeps_upstreams_matching(
    tmp_path: Path, trigger: str, event: Event, plain: int, exact: int
) -> None:
    text = RULE.format(trigger, "true")
    for keeps, expected in ((False, plain), (True, exact)):
        found = imported(tmp_path, text, keeps)
        engine = Engine(found.rules, LIBRARIES[found.rules.domain])
        assert len(run(engine, [event])) == expected


def test_a_doubled_not_is_one_only_upstream(tmp_path: Path) -> None:
    text = RULE.format("put", "!!is_into_fridge")
    assert rule_of(imported(tmp_path, text), "r").when == "target == Fridge"
    exact = imported(tmp_path, text, exact=True)
    assert rule_of(exact, "r").when == "not (target == Fridge)"


def test_folders_are_searched(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/one.rule", "two.ar", "notes.txt"):
        (tmp_path / name).write_text(MESSY)
    assert [p.name for p in rule_files([tmp_path])] == ["one.rule", "two.ar"]
    (tmp_path / "none").mkdir()
    with pytest.raises(InvalidInput, match="there is no rule file in these paths"):
        rule_files([tmp_path / "none"])


# -- a user's own module

MODULE = """
def is_heavy(user_input, tool_input, intermediate_steps):
    "Something heavy was picked."
    print("looking")
    return any(o["success"] and "Anvil" in o["action"] for _, o in intermediate_steps)

def is_far(action_input, ctx):
    return action_input.get("object") == "Attic"

def fails(action_input, ctx):
    raise KeyError("x")

def _hidden(action_input, ctx):
    return True
"""
OWN = add_functions(LIBRARIES["household"], {"mine.py": MODULE})


def test_a_module_gives_predicates_of_two_forms(tmp_path: Path) -> None:
    added = set(OWN.names) - set(LIBRARIES["household"].names)
    assert added == {"is_heavy", "is_far", "fails"}
    assert OWN.predicates["is_heavy"].doc == "Something heavy was picked."
    rules = tmp_path / "r.ar"
    rules.write_text(
        RULE.format("put", "is_heavy\n    !is_far").replace("@r", "@heavy")
    )
    found = import_rules([rules], {**LIBRARIES, "household": OWN})
    engine = Engine(found.rules, OWN)
    picked = Event("after", "pick", text="pick Anvil", succeeded=True)
    put = Event("before", "put", {"object": "Shelf"})
    assert len(run(engine, [picked, put])) == 1
    assert run(engine, [put]) == []


def test_a_predicate_that_fails_is_a_fault() -> None:
    holds = OWN.predicates["fails"].holds
    assert holds is not None
    with pytest.raises(SignalFault, match="fails: KeyError"):
        holds(Event("tick"), None, [])


def test_a_module_that_does_not_load_says_why() -> None:
    with pytest.raises(InvalidInput, match="nowhere_to_be_found"):
        add_functions(LIBRARIES["code"], {"a.py": "import nowhere_to_be_found\n"})


def test_lines_and_brackets_go_together() -> None:
    rules, troubles = read_agentspec(
        'rule @a\ntrigger put\ncheck\n  f("a & b",\n    "c")\n  g\nenforce stop\nend'
    )
    assert troubles == []
    assert rules[0].checks == ('f("a & b", "c")', "g")


# -- AgentSpec's own run logs

STEP = {
    "action": {"tool": "robotic controller", "input": "turn on Candle"},
    "observation": {"success": True, "message": ""},
}
PLAN = {"traj": [{"action": "fillLiquid Coffee Mug wine", "success": False}]}
CELL = {
    "prompt": "List it.",
    "intermediate_steps": [
        {
            "action": {"tool": "python_repl", "input": "import os"},
            "observation": "NameError('x')",
        }
    ],
}


def test_run_logs_are_read_without_a_label(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    run = {"input": {"instruction": "Light it!"}, "intermediate_steps": [STEP]}
    path.write_text("".join(json.dumps(row) + "\n" for row in (run, PLAN, CELL)))
    lit, filled, listed = read_labelled(path)
    assert [t.id for t in (lit, filled, listed)] == ["log-1", "log-2", "log-3"]
    assert [t.label for t in (lit, filled, listed)] == [None] * 3
    assert (lit.task, lit.domain, listed.domain) == ("light it", "household", "code")
    before, after, _ = lit.events
    assert (before.action, before.text) == ("turn_on", "turn on Candle")
    assert before.arguments == {"object": "Candle"} and after.succeeded is True
    assert filled.events[0].arguments == {"object": "Coffee Mug", "liquid": "wine"}
    assert [e.succeeded for e in (filled.events[1], listed.events[1])] == [False] * 2


def test_invalid_log_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"intermediate_steps": [{"action": "x"}]}))
    with pytest.raises(InvalidInput, match="line 1: not an AgentSpec log"):
        read_labelled(path)


def test_a_trigger_of_several_moments_makes_a_rule_for_each(tmp_path: Path) -> None:
    text = "rule @both\ntrigger put | finish\ncheck\n true\nenforce\n stop\nend\n"
    found = imported(tmp_path, text)
    triggers = [rule.trigger for rule in found.rules.rules]
    assert [(t.moment, t.actions) for t in triggers] == [
        ("before", ("put",)), ("finish", ()),
    ]  # fmt: skip
    assert [rule.name for rule in found.rules.rules] == ["both", "both-2"]
    text = text.replace("put | finish", "put | any | state_change")
    triggers = [rule.trigger for rule in imported(tmp_path, text).rules.rules]
    assert [(t.moment, t.actions) for t in triggers] == [("before", ()), ("tick", ())]


@pytest.mark.parametrize("word", ["stpo", "STOP", "stop_now", "halt()"])
def test_unknown_enforcement_is_off_and_reported(tmp_path: Path, word: str) -> None:
    text = f"rule @typo\ntrigger put\ncheck\n true\nenforce\n {word}\nend\n"
    found = imported(tmp_path, text)
    (rule,) = found.rules.rules
    assert rule.needs == (f"enforcement {word.removesuffix('()')}",)
    assert found.runnable == 0


ONE_CHECK = "rule @r\ntrigger\n    pick\ncheck\n    {}\nenforce\n    stop\nend\n"


@pytest.mark.parametrize(
    ("check", "fix"),
    [
        ("is_candle or is_fragile", "write a rule for each side"),
        ("is_candle || is_fragile", "write a rule for each side"),
        ("(is_candle & is_fragile)", "each condition on its own line"),
        ("IS_CANDLE", "write is_candle in lower case"),
        ("unheard_of", ""),
    ],
)
def test_missing_predicates_are_reported_with_a_fix(
    check: str, fix: str, tmp_path: Path
) -> None:
    path = tmp_path / "r.ar"
    path.write_text(ONE_CHECK.format(check))
    sources = {"mine.py": TWO}
    added = {each: add_functions(known, sources) for each, known in LIBRARIES.items()}
    (need,) = import_rules([path], added).as_dict()["needs"]
    assert fix in need.get("fix", "")
    assert fix or "fix" not in need


TWO = "".join(
    f"def {name}(user, text, steps):\n    return 'candle' in text\n"
    for name in ("is_candle", "is_fragile")
)


@pytest.mark.parametrize("word", ["rule", "trigger", "check", "enforce"])
def test_capitals_are_reported_with_their_fix(word: str) -> None:
    odd = ONE_CHECK.replace(word, word.upper()).format("true")
    rules, (trouble,) = read_agentspec(ONE_CHECK.format("true") + odd)
    assert len(rules) == 1 and trouble.line == 9
    assert f"rule r: write {word} in lower case" in trouble.problem
    (other,) = read_agentspec(odd)[1]
    assert other.problem == trouble.problem


def test_an_end_or_enforcement_in_capitals_is_understood(tmp_path: Path) -> None:
    path = tmp_path / "r.ar"
    path.write_text(ONE_CHECK.replace("end", "END").format("true"))
    assert import_rules([path], LIBRARIES).runnable == 1
    path.write_text(ONE_CHECK.replace("stop", "STOP").format("true"))
    (need,) = import_rules([path], LIBRARIES).as_dict()["needs"]
    assert need["fix"] == "write stop in lower case"


def test_imported_rules_with_python_guard_and_replay(tmp_path: Path) -> None:
    path, own, out = tmp_path / "r.ar", tmp_path / "mine.py", tmp_path / "o.yaml"
    path.write_text(ONE_CHECK.format("is_candle"))
    own.write_text(TWO)
    command = ["rules", "import", path, "--out", out, "--module", own, "--json"]
    done = CliRunner().invoke(main, list(map(str, command)))
    assert json.loads(done.output)["runnable"] == 1
    own.unlink()
    judge = read_judge(out)
    for each in (judge, make_judge(judge.as_dict())):
        for thing, fires in (("candle", True), ("mug", False)):
            proposal = Action("pick", {"object": thing})
            found = each.judge(Frame(0.0, 0, {}), proposal)
            assert (found is not None) is fires


@pytest.mark.parametrize(
    "text",
    ["\n" * (MAX_BYTES + 1), "rule @a\ntrigger\nx\nend\n" * (MAX_RULES + 1)],
    ids=["blank lines", "many rules"],
)
def test_a_file_of_rules_is_no_longer_than_people_write(
    text: str, tmp_path: Path
) -> None:
    path = tmp_path / "rules.spec"
    path.write_text(text)
    with pytest.raises(TooLarge):
        import_rules([path], {})
