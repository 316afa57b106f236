"""Further mistakes that once got a misleading message or none: each message must say
what helps.
"""

from __future__ import annotations

import json
import shlex
import shutil
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from forewarn.cli import main
from tests.forewarn.test_mistakes import HEADER, RULES, frame, lines, predicates
from tests.scenarios import learned

LAWS = (
    ("slow = always speed < 5", "write slow := …"),
    ("slow: always speed < 5", "write slow := …"),
    ("always speed < 5; always braking", "repeat --law"),
    ("always eventually[2 s] braking", "write both times, as in [0, 2 s]"),
    ("always once[0, inf] braking", "leave out the interval"),
    ("until[0, 5 s](braking, collision)", "write a until[0, 2 s] b"),
    ("if braking then collision", "write a -> b"),
    ("always not (braking until collision 3)", "or ')' before '3'"),
    ("always not (braking before collision)", "write always (b -> once a)"),
    ("always speed < 50 km / h", "write km/h without spaces"),
    ("always speed < 5 foo", "use a unit such as"),
    ("always lead_distance is None", "write `is none` or `is not none`"),
    ("always lead_distance == none", "write lead_distance is none"),
    ("always args.path == x", "names contain no dots"),
    ('always not traffic_light contains "red"', 'write traffic_light matches "…"'),
    ("always count[0, 60 s](braking)", "compare it, as in count["),
    ("always count(braking) <= 3", "write count[0, 60 s](a) <= 3"),
    ("own_laws.yaml", "use --book own_laws.yaml"),
    ("always speed between 3 and 50", "write a >= 1 and a <= 2"),
    ("always speed < 13,9 m/s", "write decimals with a point"),
    ("always (speed < 13,9 m/s)", "write decimals with a point"),
    ("always (time_s > 2 s -> braking)", "write an interval, as in always[2 s,]"),
    ("always traffic_light is red", "write traffic_light == red"),
    ("always traffic_light is not red", "write traffic_light != red"),
    ("always (speed > 3 -> eventually[0, 2 s] braking for 1 s)",
     "write historically[0, 1 s] a"),
    ("always arg_path matches @a", "put text in double quotes"),
    ('always traffic_light matches "*a"', "write .* for any text"),
    ("always not traffic_light in [red green]", "names with spaces in double"),
    ("always previous(speed) > speed", "with once, historically and since"),
    ("always second(speed) > 3", "has abs, min, max"),
    ("always count[0, 2 s](braking) <= 50 %", "write 50: it is compared with a number"),
)  # fmt: skip


def said(line: str, status: int = 2) -> str:
    """The message of a command that ends with `status`."""
    done = CliRunner().invoke(main, shlex.split(line))
    assert done.exit_code == status, done.output
    return done.stderr.strip() or done.stdout


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "drive.csv").write_text(
        "time_s,speed,braking,collision,lead_distance,arg_path\n"
        "0,40,false,false,3,x\n1,45,true,false,none,x\n"
    )
    (tmp_path / "own_laws.yaml").write_text("format: forewarn.laws/1\nlaws: {}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("law", "mend"), LAWS)
def test_wrong_laws_are_mended(law: str, mend: str) -> None:
    assert mend in said(f"monitor drive.csv --law {shlex.quote(law)}")


@pytest.mark.parametrize(
    ("name", "text", "options", "mend"),
    [
        ("c.csv", "# mine\ntime_s,speed\n0,3\n", "", "the header (remove it)"),
        ("u.csv", "time_s,speed\n0,4 km/h\n", "", "write only the number, or leave"),
        ("m.csv", "time_s,v\n0,4\n", "--map speed=v", "column first: v=speed"),
        ("ok.csv", "time_s,speed\n0,4\n", "--book lb.yaml", "(it has gentle)"),
    ],
)
def test_wrong_tables_and_books_are_mended(
    desk: Path, name: str, text: str, options: str, mend: str
) -> None:
    (desk / name).write_text(text)
    (desk / "lb.yaml").write_text(
        "format: forewarn.laws/1\nvocabulary: driving\nlaws:\n"
        "  gentle: {title: a, article: b, formula: always braking}\n"
    )
    assert mend in said(f"monitor {name} --law no_collision {options}")


GYM = "{name: gym, settings: {env: CartPole-v1, vocabulary: driving, signals: {speed: "
GYM += "'observation[0]'}, stop: 1, shows: 'speed < 1', period_s: 0.1}}"


@pytest.mark.parametrize(
    ("before", "after", "mend"),
    [
        (
            "period_s: 0.1}}",
            "period_s: 0.1, slow: 15}}",
            "expected a name or a function",
        ),
        (
            "v1, vocabulary: driving",
            "v1, vocabulary: v.yaml",
            "begins with $here/ is relative",
        ),
        ("{name: log}", "{name: log, settings: {a: 1}}", "no key is allowed here"),
        (
            "{name: log}",
            "{name: gym, settings: {policy: a.py}}",
            "does not name a function",
        ),
        ("CartPole-v1", "'${here}/a.py:x'", "write $here/a.py:x"),
    ],
)
def test_wrong_environments_are_mended(
    desk: Path, before: str, after: str, mend: str
) -> None:
    pytest.importorskip("gymnasium")
    text = FLEET[: FLEET.index("world:")] + f"world: {GYM}\n"
    text += FLEET[FLEET.index("pilot:") :]
    assert before in text
    (desk / "g.yaml").write_text(text.replace(before, after))
    told = said("collect g.yaml --episodes 1 --out r")
    assert mend in told and "g.yaml" in told


CART_SIGNALS = """format: forewarn.vocabulary/1
name: cart
signals:
  speed: {type: number, unit: m/s}
  angle: {type: number, unit: rad}
"""
CART = """format: forewarn.scenario/1
name: cart
title: A cart
world:
  name: gym
  settings:
    env: CartPole-v1
    vocabulary: $here/cart.vocabulary.yaml
    period_s: 0.02
    signals: {speed: "observation[1]", angle: "observation[2]"}
    stop: 1
    shows: angle < 0.1
pilot: {name: gym, settings: {policy: $here/cart.py:push}}
laws: ["upright := always angle < 0.2"]
end: {max_time_s: 6}
abstraction:
  format: forewarn.abstraction/1
  name: cart
  vocabulary: cart.vocabulary.yaml
  period_s: 0.02
  predicates: [angle < 0.2]
"""


@pytest.mark.parametrize(
    ("before", "after", "mend"),
    [
        ("  vocabulary: cart.v", "  vocabulary: driving # ",
         "the abstraction's vocabulary is driving, but the world's is cart.vocab"),
        ("$here/cart.py:push", "autopilot", "add autopilot: $here/FILE.py:NAME to"),
        ('{speed: "observation[1]", angle: "observation[2]"}', "$here/cart.py:nan",
         "cart.py:nan: angle is nan when an episode begins (leave a signal out while"),
    ],
)  # fmt: skip
def test_wrong_settings_of_an_environment_are_mended(
    desk: Path, before: str, after: str, mend: str
) -> None:
    pytest.importorskip("gymnasium")
    (desk / "cart.vocabulary.yaml").write_text(CART_SIGNALS)
    (desk / "cart.py").write_text(
        "def push(observation):\n    return 1\n\n\n"
        "def nan(observation, info):\n    return {'speed': 1, 'angle': float('nan')}\n"
    )
    (desk / "cart.yaml").write_text(CART)
    said("collect cart.yaml --episodes 1 --out r", 0)
    assert CART.count(before) == 1
    (desk / "cart.yaml").write_text(CART.replace(before, after))
    told = said("collect cart.yaml --episodes 1 --out s")
    assert mend in told


def test_a_file_that_a_scenario_names_is_missing(fleet: Path, desk: Path) -> None:
    text = FLEET[: FLEET.index("abstraction:")] + "abstraction: far.yaml\n"
    fleet.write_text(f"{text}end: {{max_time_s: 60}}\n")
    told = said("collect fleet.yaml --out r")
    assert "fleet.yaml: abstraction: there is no file far.yaml" in told


def test_mathematical_signs_are_understood() -> None:
    law = "always ¬(speed ≥ 90 km/h ∧ braking ∨ speed ≠ 3 → speed ≤ 3)"
    assert " ok" in said(f"monitor drive.csv --law '{law}'", 0)


def test_a_law_about_one_moment_is_noted() -> None:
    told = said("monitor drive.csv --law 'speed < 41 km/h'", 0)
    assert "applies only to the first moment" in told
    assert "write always (…)" in told
    assert "moment" not in said("monitor drive.csv --law 'always speed < 50 km/h'", 0)


def test_times_of_a_law_use_the_period_of_the_scenario(desk: Path) -> None:
    signals = {"stop_line_distance": 50.0, "collision": False, "past_stop_line": False,
               "required_deceleration": 0.0, "time_to_collision": None}  # fmt: skip
    header = {**HEADER, "provides": [*HEADER["provides"], *signals]}
    (desk / "a.jsonl").write_text(lines(header, *(frame(i, **signals) for i in (0, 1))))
    law = "always (braking -> eventually[0, 2 s] speed < 0.5 km/h)"
    done = said(f"learn a.jsonl --scenario tiny-road --law '{law}' --out m.json", 0)
    assert "3 transitions" in done


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("['eventually[0, 2 s] braking']", "put it in a law"),
        ("{red: braking}", "as in `- braking`"),
        ("[red: braking]", "predicates have no names"),
        ("[{when: braking, lag_s: 0.25}]", "write 0.2 or 0.3"),
    ],
)
def test_wrong_predicates_are_mended(desk: Path, text: str, mend: str) -> None:
    (desk / "a.yaml").write_text(predicates(text))
    (desk / "a.jsonl").write_text(lines(HEADER, frame(0), frame(1)))
    assert mend in said("learn a.jsonl --abstraction a.yaml --out m.json")


def test_other_kinds_of_files_are_recognised(desk: Path) -> None:
    (desk / "p.csv").write_bytes(b"PAR1\xff\xfe")
    assert "name it p.parquet" in said("monitor p.csv --law braking")
    with zipfile.ZipFile(desk / "x.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", "<a/>")
    assert "export it as CSV" in said("monitor x.xlsx --law braking")
    (desk / "e.csv").write_text("")
    assert "record or copy it again" in said("monitor e.csv --law braking")
    (desk / "t.csv").write_text("time,speed\n0,3\n")
    assert "rename the column time to time_s" in said("monitor t.csv --law braking")


def test_folders_of_traces_may_contain_reports_and_facts(desk: Path) -> None:
    folder = desk / "runs"
    folder.mkdir()
    (folder / "a.jsonl").write_text(lines(HEADER, frame(0), frame(1)))
    (folder / "report.html").write_text("<html>\nx</html>\n")
    (folder / "runs.csv").write_text("run,driver\na,b\n")
    assert "1 trace " in said("learn runs --law 'always braking' --out m.json", 0)
    (desk / "all").mkdir()
    folder.rename(desk / "all/runs")
    assert "such as all/runs" in said("monitor all --law braking")


def test_signals_that_no_run_provides_are_named(desk: Path) -> None:
    (desk / "runs").mkdir()
    (desk / "runs/a.jsonl").write_text(lines(HEADER, frame(0), frame(1)))
    told = said("monitor runs --law no_collision", 0)
    assert "a.jsonl does not provide collision" in told
    (desk / "t.csv").write_text("time_s,speed (km/h)\n0,3\n")
    told = said("monitor t.csv --law 'always speed < 5'", 0)
    assert "did you mean speed (km/h)?" in told


FLEET = """format: forewarn.scenario/1
name: fleet
title: Logs
world:
  name: log
  settings:
    files: $here/logs/*.csv
    columns:
      gap: {signal: lead_distance, none_codes: [-1]}
      light: {signal: traffic_light, codes: {0: "off", 1: red}}
    time: stamp_ms
    time_unit: ms
    period_s: 0.1
pilot: {name: log}
laws: [no_collision]
abstraction:
  format: forewarn.abstraction/1
  name: fleet
  vocabulary: driving
  period_s: 0.1
  predicates: [collision, lead_distance < 10 m]
end: {max_time_s: 60}
"""


@pytest.fixture
def fleet(desk: Path) -> Path:
    rows = "".join(f"{n * 100},{n},0,false\n" for n in range(30))
    (desk / "logs").mkdir()
    for name in ("a", "b", "c"):
        text = f"stamp_ms,gap,light,collision\n{rows}"
        (desk / f"logs/{name}.csv").write_text(text)
    (desk / "fleet.yaml").write_text(FLEET)
    return desk / "fleet.yaml"


@pytest.mark.parametrize(
    ("before", "after", "mend"),
    [
        ("[-1]", "-1", "columns.gap.none_codes: expected a list, found -1"),
        ('"off"', "off", 'fleet.yaml: world: light: the code 0 has the value False'),
        ('"off"', "ofl", "did you mean off?"),
        ("time_unit: ms", "time_unit: s", "check `time_unit`"),
        ("[no_collision]", "[close: always braking]", "put the whole text in quotes"),
        ("$here/logs/*.csv", "[$here/logs/a.csv]", "without brackets"),
        ("$here/logs/*.csv", "[$here/logs/a.csv, $here/logs/b.csv]",
         "write one value without brackets"),
        ("{signal: lead_distance, none_codes: [-1]}", "[lead_distance]",
         "columns.gap: expected a mapping, found a list"),
    ],
)  # fmt: skip
def test_wrong_log_scenarios_are_mended(
    fleet: Path, before: str, after: str, mend: str
) -> None:
    assert before in FLEET
    fleet.write_text(FLEET.replace(before, after))
    assert mend in said("monitor fleet.yaml --law no_collision")


def test_training_logs_are_recognised_after_others_were_added(
    fleet: Path, desk: Path
) -> None:
    for name in ("d", "e"):
        shutil.copy(desk / "logs/a.csv", desk / f"logs/{name}.csv")
    said("collect fleet.yaml --episodes 3 --out traces", 0)
    said("learn traces --scenario fleet.yaml --out model.json", 0)
    shutil.copy(desk / "logs/a.csv", desk / "logs/0.csv")
    measured = CliRunner().invoke(
        main, ["measure", "fleet.yaml", "--model", "model.json", "--json"]
    )
    assert json.loads(measured.stdout)["seeds"] == [4, 5]
    told = said("measure fleet.yaml --model model.json --seed 3 --episodes 2")
    assert "learned from 1 of these runs, including seed 3" in told


def test_an_empty_log_is_recognised(fleet: Path, desk: Path) -> None:
    (desk / "logs/b.csv").write_text("")
    told = said("monitor fleet.yaml --law no_collision")
    assert "logs/b.csv: the file is empty (record or copy it again)" in told


def test_tables_named_mcap_are_recognised(fleet: Path, desk: Path) -> None:
    (desk / "logs/a.csv").rename(desk / "logs/a.mcap")
    fleet.write_text(FLEET.replace("*.csv", "*.mcap"))
    told = said("monitor fleet.yaml --law no_collision")
    assert "a.mcap: this is not a valid MCAP file (if it is a table in text" in told


def test_a_horizon_lasts_at_least_one_step() -> None:
    model = learned.model("tiny-road")
    line = f"tune tiny-road --model {model} --horizons 0.001 --out p.yaml"
    assert "use horizons of at least 0.1 s" in said(line)


def test_signals_of_an_environment_are_a_mapping(desk: Path) -> None:
    pytest.importorskip("gymnasium")
    world = "{name: gym, settings: {env: CartPole-v1, vocabulary: driving, "
    world += "signals: [speed], stop: 1, shows: 'true', period_s: 0.1}}"
    text = FLEET[: FLEET.index("world:")] + f"world: {world}\n"
    (desk / "g.yaml").write_text(text + FLEET[FLEET.index("pilot:") :])
    told = said("collect g.yaml --episodes 1 --out r")
    assert "signals: expected a mapping, found a list" in told


def test_facts_name_logs_by_file(fleet: Path, desk: Path) -> None:
    (desk / "f.csv").write_text("file,driver\na.csv,x\nb.csv,y\nc.csv,z\n")
    line = "warrant fleet.yaml --group driver --out g --facts f.csv"
    assert "No certificate" in said(line, 1)
    (desk / "f.csv").write_text("file,driver\na.csv,x\n")
    assert "add a row for this run" in said(line)


def test_tables_of_other_columns_need_a_scenario(fleet: Path) -> None:
    assert "docs/own-world.md" in said("warrant logs --law no_collision --out g")


POLICY = "format: forewarn.policy/1\nrules:\n- {law: '*', thresholds: {alert: 0.3}}\n"


@pytest.mark.parametrize(
    ("line", "mend"),
    [
        ("show p.yaml", "the file has the format forewarn.policy, but a model"),
        ("show e.json", "the file is empty"),
        ("report m.json", "the file has the format forewarn.model, but a run record"),
        ("monitor m.json --law braking", "the file has the format forewarn.model, but"),
        ("rules lint t.jsonl", "give a YAML file"),
        (
            "rules score --rules r.yaml --traces l.json",
            "write one JSON object per line",
        ),
        ("rules lint star.yaml", "put * in quotes"),
        ("monitor drive.csv --book b.yaml --law a", "formula: …"),
    ],
)
def test_files_of_another_kind_are_recognised(desk: Path, line: str, mend: str) -> None:
    model = '{"format": "forewarn.model/1", "states": []}'
    for name, text in {
        "p.yaml": POLICY,
        "e.json": "",
        "m.json": model,
        "t.jsonl": '{"a": 1}\n{"a": 2}\n',
        "l.json": '[\n{"a": 1}\n]\n',
        "star.yaml": POLICY.replace("'*'", "*").replace("{law", "{ law"),
        "b.yaml": "format: forewarn.laws/1\nlaws: {a: always braking}\n",
        "r.yaml": RULES,
    }.items():
        (desk / name).write_text(text)
    assert mend in said(line)


def test_traces_that_contradict_a_constraint_are_reported(desk: Path) -> None:
    text = predicates("[collision, braking]") + "constraints: [not braking]\n"
    (desk / "a.yaml").write_text(text)
    header = {**HEADER, "provides": [*HEADER["provides"], "collision"]}
    seen = [frame(n, collision=False, braking=n > 0) for n in range(3)]
    (desk / "a.jsonl").write_text(lines(header, *seen))
    line = "learn a.jsonl --abstraction a.yaml --law no_collision --out m.json"
    assert "1 of 2 states contradict the constraints, such as 01" in said(line, 0)


def test_a_fault_of_many_traces_is_reported_once(desk: Path) -> None:
    text = predicates("[braking]").replace("0.1", "0.001")
    (desk / "a.yaml").write_text(text)
    (desk / "runs").mkdir()
    for n in range(9):
        (desk / f"runs/{n}.jsonl").write_text(lines(HEADER, frame(0), frame(n + 1)))
    told = said("learn runs --abstraction a.yaml --out m.json", 0)
    assert told.count("a frame every") == 1
    assert "and 8 more traces" in told


def test_a_webhook_that_fails_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    from forewarn.monitors.guarding.decision import Decision
    from forewarn.plugins.loop.alerts import Webhook

    hook = Webhook("http://127.0.0.1:9/alerts")
    for sequence in (0, 1):
        hook.alerted(Decision("alert", sequence, 0.0))
    hook.close()
    assert caplog.text.count("the webhook http://127.0.0.1:9 failed") == 1


@pytest.mark.parametrize(
    ("line", "mend"),
    [
        ("rules score --rules r.yaml --traces t.jsonl", "no trace belongs to the"),
        ("rules rollback r.yaml", "the rules have no earlier version"),
        ("run fork-in-microwave --guard-program r.yaml --user role=x", "with --rules"),
        ("mcp guard --law 'always not tool == delete-file' -- true",
         'write "delete-file" in quotes'),
        ("mcp guard --law 'always not tool == x' --record drive.csv/x -- true",
         "(this is a file, but a folder is needed)"),
        ("mcp guard --law 'always not tool == x' --shadwo -- true",
         "no such option '--shadwo' (did you mean --shadow?)"),
        ("mcp tools --otu tools.json true", "did you mean --out?"),
    ],
)  # fmt: skip
def test_mistakes_around_agents_are_mended(desk: Path, line: str, mend: str) -> None:
    run = '{"id": "1", "domain": "%s", "label": "safe", "events": []}\n'
    (desk / "t.jsonl").write_text(run % "code")
    (desk / "r.yaml").write_text(RULES)
    assert mend in said(line)
