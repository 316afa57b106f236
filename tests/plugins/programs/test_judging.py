"""Guard programs in a guard: household and road, recorded and replayed as they were."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from shutil import copytree
from subprocess import PIPE, run
from typing import Any

import pytest
from click.testing import CliRunner

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.cli import main
from forewarn.monitors.guarding.decision import Action, Decision, Judgement
from forewarn.monitors.guarding.policy import Policy, Step, write_policy
from forewarn.monitors.programs.compiling import compile_request
from forewarn.monitors.programs.file import (
    NotSigned,
    ProgramFile,
    load_program,
    write_program,
)
from forewarn.monitors.programs.request import read_request
from forewarn.plugins.agents import AgentGuard
from forewarn.plugins.driving.act import CarActuator
from forewarn.plugins.loop.replay import make_judge, replay
from forewarn.plugins.programs.judging import ProgramJudge, domains_of, read_judge
from tests.forewarn.test_records import rechained

ROOT = Path(__file__).parents[3]
SNOW = "    surroundings: {snow: 0.5}\n"
STOVE = """\
if Does(action, "turn on") and About(action, "stove") and Same(user["role"], "child"):
    deny("a child may not turn on the stove")
"""


def _file(program: str) -> ProgramFile:
    return ProgramFile(
        name="rules of the house",
        request="words",
        specification="a robot",
        made_by="rules",
        program=program,
    )


def _judged(
    program: str, frame: dict[str, Any], action: Action | None, **handed: Any
) -> Judgement | None:
    return ProgramJudge(_file(program), handed).judge(Frame(1.0, 1, frame), action)


def test_a_child_may_not_turn_on_the_stove() -> None:
    turn_on = Action("turn_on", {"object": "StoveKnob"})
    found = _judged(STOVE, {}, turn_on, user={"role": "child"})
    assert found is not None
    assert (found.kind, found.rule) == ("skip", "a child may not turn on the stove")
    assert any("About(action" in fact for fact in found.because)
    assert _judged(STOVE, {}, turn_on, user={"role": "adult"}) is None
    assert _judged(STOVE, {}, None, user={"role": "child"}) is None


COUNTED = """\
if holds["count[0, 60 s](tool == pay and arg_to starts_with \\"x\\") > 2"]:
    deny("too many payments")
if Matches(action["name"], "^(?i)drop_") or StartsWith(action["name"], "rm"):
    deny("nothing is deleted")
"""


def test_programs_count_calls_and_judge_texts() -> None:
    judge = ProgramJudge(_file(COUNTED.replace("^(?i)", "(?i)^")), {})
    found = []
    for step, (tool, to) in enumerate(
        [("pay", "xy")] * 4 + [("pay", "z"), ("Drop_", 1)]
    ):
        frame = Frame(20.0 * step, step, {})
        judged = judge.judge(frame, Action(tool, {"to": to} if to != 1 else {}))
        found.append(None if judged is None else judged.rule)
    many, gone = "too many payments", "nothing is deleted"
    # A minute back there are four payments at the fourth call, three at the fifth.
    assert found == [None, None, many, many, many, gone]


@pytest.mark.parametrize(
    ("condition", "problem"),
    [
        ("count[0, 60 s] failed > 3", "write count"),
        ("eventually x", "refers to the future"),
        ("unheard_of", "there is no predicate"),
    ],
)
def test_a_condition_that_does_not_parse_is_rejected(
    condition: str, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        ProgramJudge(_file(f'if holds["{condition}"]:\n    deny("no")\n'), {})


def test_a_program_that_cannot_judge_denies_in_its_own_name() -> None:
    turn_on = Action("turn_on", {"object": "StoveKnob"})
    found = _judged(STOVE, {}, turn_on)
    assert found is not None and found.kind == "skip"
    assert found.rule == "rules of the house" and "user has no value" in found.reason


def test_in_snow_the_car_is_told_its_speed() -> None:
    program = (
        'if frame["snow"] > 0 and frame["speed"] > 30:\n'
        '    slow("in snow at most 30 km/h", 30)\n'
    )
    drive = Action("control", {"acceleration": 1.0})
    found = _judged(program, {"snow": 0.5, "speed": 50.0}, drive)
    assert found is not None and (found.kind, found.cap_kmh) == ("slow", 30.0)
    decision = Decision(found.kind, 1, 1.0, cap_kmh=found.cap_kmh)
    done = CarActuator().carry_out(decision, drive, Frame(1.0, 1, {}))
    assert done is not None and done.arguments["speed_cap_kmh"] == 30.0
    assert _judged(program, {"snow": 0.0, "speed": 50.0}, drive) is None


def test_every_predicate_can_be_used_in_programs() -> None:
    names = domains_of()
    assert {"household", "driving", "code"} >= set(names.values())
    assert "household" in names.values()
    listed = "\n".join(
        f'if holds["{name}"]:\n    deny("{name}")'
        for name, domain in names.items()
        if domain == "household"
    )
    judge = ProgramJudge(_file(listed), {})
    assert judge.judge(Frame(0.0, 0), Action("find", {"object": "Mug"})) is None
    thrown = Action("throw")
    judge.reset()
    judge.judge(Frame(0.0, 0), Action("pick", {"object": "Mug"}))
    found = judge.judge(Frame(1.0, 1, {"last_action_succeeded": True}), thrown)
    assert found is not None and found.kind == "skip"
    with pytest.raises(InvalidInput, match="there is no predicate 'no_such'"):
        ProgramJudge(_file('if holds["no_such"]:\n    deny("x")'), {})


def test_a_record_keeps_enough_to_make_the_judge_again() -> None:
    judge = ProgramJudge(_file(STOVE), {"user": {"role": "child"}})
    again = make_judge(judge.as_dict())
    turn_on = Action("turn_on", {"object": "StoveKnob"})
    assert again.judge(Frame(0, 0), turn_on) == judge.judge(Frame(0, 0), turn_on)
    assert again.rules == judge.rules
    with pytest.raises(InvalidInput, match="a judge of an unknown format: 'x'"):
        make_judge({"format": "x"})


def test_the_replay_of_functions_that_hang_ends(tmp_path: Path) -> None:
    """A record brings its functions along, and anybody may have written them."""
    fine = 'def odd(x):\n    "Whether it is odd."\n    return False\n'
    program = 'if odd(action["arguments"]["x"]):\n    deny("it is odd")\n'
    file = ProgramFile(
        name="odd",
        request="",
        specification="",
        made_by="rules",
        program=program,
        functions={"odd.py": fine},
    )
    path = tmp_path / "calls.run.jsonl"
    with AgentGuard.by_laws([], record=path, judges=[ProgramJudge(file, {})]) as guard:
        for number in range(8):
            assert guard.before("call", {"x": number + 1}).passes
    text = path.read_text()
    assert replay(path) == (8, None)
    assert text.count("return False") == 1
    path.write_bytes(rechained(text.splitlines(), 0, "return False", "while x: pass"))
    _, divergence = replay(path)
    assert divergence is not None and divergence.replayed == "skip"


def test_only_programs_with_a_valid_signature_are_enforced(tmp_path: Path) -> None:
    path = tmp_path / "guard.yaml"
    write_program(path, _file(STOVE))
    read_judge(path, enforced=False)
    with pytest.raises(NotSigned, match="nobody has signed the program"):
        read_judge(path)
    write_program(path, _file(STOVE).signed("Ada"))
    assert read_judge(path).rules
    for part, other in (
        ("child", "adult"), ("words", "word"), ("a robot", "a car"), ("Ada", "Eve"),
    ):  # fmt: skip
        write_program(path, _file(STOVE).signed("Ada"))
        path.write_text(path.read_text().replace(part, other, 1))
        if part == "Ada":
            # A signature is a name and a digest: it keeps out no forger of files.
            assert load_program(path).signed_by == ("Eve",)
            continue
        with pytest.raises(NotSigned, match="changed after Ada signed it"):
            read_judge(path)


def test_read_judge_reads_rules_and_programs(tmp_path: Path) -> None:
    from forewarn import read_judge as public
    from forewarn.monitors.rules.judging import RuleJudge

    assert public is read_judge
    program, rules = tmp_path / "guard.yaml", tmp_path / "rules.yaml"
    write_program(program, _file(STOVE))
    rules.write_text("format: forewarn.rules/1\ndomain: household\nrules: []\n")
    assert isinstance(read_judge(str(program), enforced=False), ProgramJudge)
    with pytest.raises(InvalidInput, match="predicates are for rules"):
        read_judge(program, [rules], enforced=False)
    assert isinstance(read_judge(rules), RuleJudge)
    for wrong, mend in (("rolle", "did you mean role?"), ("age", "it reads role")):
        with pytest.raises(InvalidInput, match=rf"guard.yaml: .*{wrong}.* \({mend}"):
            read_judge(program, facts={"user": {wrong: "child"}}, enforced=False)
    assert read_judge(program, facts={"user": {"role": "a", "x": 1}}, enforced=False)
    with pytest.raises(InvalidInput, match='unknown fact .*write {"user": {"role"'):
        read_judge(program, facts={"role": "child"}, enforced=False)
    with pytest.raises(InvalidInput, match='expected a mapping.*write {"role": .child'):
        read_judge(program, facts={"user": "child"}, enforced=False)
    with pytest.raises(InvalidInput, match="not a guard program"):
        read_judge(rules, facts={"user": "a"})


def test_a_file_reads_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "guard.yaml"
    odd = ProgramFile(
        name="n: 'a'",
        request="# t\n\n- x \n",
        specification="  s\n",
        made_by="m",
        program='deny("é")\n',
        functions={"f.py": "a\n\n"},
    )
    write_program(path, odd.signed("Ada  Lovelace"))
    assert load_program(path) == odd.signed("Ada Lovelace")
    assert load_program(path).digest == odd.digest


def test_on_an_embedded_road_in_snow_the_car_keeps_to_thirty(tmp_path: Path) -> None:
    pytest.importorskip("libsumo", reason="needs libsumo")
    driving = ROOT / "scenarios" / "driving"
    scenario = (driving / "s1.yaml").read_text()
    copytree(driving / "abstractions", tmp_path / "abstractions")
    snowy = tmp_path / "snow.yaml"
    scenario = scenario.replace("    map: crossing\n", "    map: crossing\n" + SNOW)
    snowy.write_text(scenario.replace("max_time_s: 36", "max_time_s: 16"))
    program = compile_request(read_request("- in snow at most 30 km/h", "r"), "r")
    path = tmp_path / "guard.yaml"
    write_program(path, _file(program).signed("Ada"))
    model = ROOT / "scenarios" / "trained" / "s1.model.json.gz"
    calm = tmp_path / "calm.yaml"
    # Nothing but the program steps in: the laws only alert.
    write_policy(calm, Policy(rules={"*": (Step("alert", 1.0),)}))
    run = ["run", snowy, "--model", model, "--policy", calm, "--out"]
    driven = []
    for name, more in (("free", []), ("held", ["--guard-program", path])):
        done = CliRunner().invoke(
            main, [str(each) for each in [*run, tmp_path / name, *more]]
        )
        assert done.exit_code == 0, done.output
        (record,) = (tmp_path / name).glob("*.run.jsonl")
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        speeds = [x["signals"]["speed"] for x in lines if "signals" in x]
        driven.append(speeds)
    free, held = driven
    assert max(free) > 40
    below = next(i for i, speed in enumerate(held) if speed <= 31)
    assert max(held[below:]) < 32 and len(held) > below + 20
    assert CliRunner().invoke(main, ["replay", str(record)]).exit_code == 0


ACCESS = """\
| role | database | columns |
|---|---|---|
| nursing | medication | patientunitstayid, drugname |
"""


@pytest.mark.needs("sqlglot")
@pytest.mark.parametrize(
    ("arguments", "passes"),
    [
        ({"query": "SELECT drugname FROM medication"}, True),
        ({"query": "SELECT routeadmin FROM medication"}, False),
        ({"query": "SELECT * FROM medication"}, False),
        ({"query": "SELECT age FROM patient"}, False),
        ({"input": {"text": "select routeadmin from medication"}}, False),
        ({"code": "medication = pd.read_csv('medication.csv')\n"
                  "medication['drugname']"}, True),
        ({"code": "db = LoadDB('medication')\nGetValue(db, 'routeadmin')"}, False),
        ({"query": "show me everything"}, False),
        ({"to": "Ada", "text": "done"}, True),
        ({}, True),
    ],
)  # fmt: skip
def test_an_access_program_judges_what_an_action_reads(
    arguments: dict[str, Any], passes: bool
) -> None:
    program = compile_request(read_request(ACCESS, "a.md"), "a.md")
    judge = ProgramJudge(
        ProgramFile(
            name="access",
            request=ACCESS,
            specification="an agent",
            made_by="rules",
            program=program,
        ),
        {"user": {"role": "nursing"}},
    )
    said = judge.judge(Frame(0.0, 0, {}), Action("run", arguments))
    assert (said is None) == passes


@pytest.mark.parametrize("program", [STOVE, "x = needed\n"])
def test_the_first_review_loads_nothing(program: str) -> None:
    """A review that first loaded a library would exceed its time limit."""
    asked = (
        "import sys\n"
        "from forewarn.abstractions.frame import Frame\n"
        "from forewarn.monitors.guarding.decision import Action\n"
        "from tests.plugins.programs.test_judging import ProgramJudge, _file\n"
        "judge = ProgramJudge(_file(sys.argv[1]), {'user': {'role': 'child'}})\n"
        "before, read = set(sys.modules), []\n"
        "sys.addaudithook(lambda e, a: read.append(a[0]) if e == 'open' else None)\n"
        "sql = {'object': 'Stove', 'query': 'SELECT a FROM b'}\n"
        "judge.judge(Frame(1.0, 1, {}), Action('turn_on', sql))\n"
        "print(sorted(set(sys.modules) - before), read)\n"
    )
    told = run(
        [sys.executable, "-c", asked, program], stdout=PIPE, text=True, check=True
    )
    assert told.stdout == "[] []\n"


def test_a_misspelt_value_of_a_fact_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_program(tmp_path / "p.yaml", _file(STOVE))
    for role in ("chlid", "Child", "guest"):
        facts = {"user": {"role": role}}
        read_judge(tmp_path / "p.yaml", facts=facts, enforced=False)
    (told,) = caplog.messages
    assert "does not mention user's role 'chlid' (did you mean child?)" in told


def test_a_misspelt_list_of_contacts_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = 'if not Knows(user, Argument(action, "to")):\n    deny("a stranger")\n'
    write_program(tmp_path / "p.yaml", _file(program))
    known = ["a@b.c"]
    read_judge(tmp_path / "p.yaml", facts={"user": {"contacts": known}}, enforced=False)
    assert not caplog.messages
    with pytest.raises(InvalidInput, match=r"did you mean contacts\?"):
        read_judge(
            tmp_path / "p.yaml", facts={"user": {"contact": known}}, enforced=False
        )
