"""One hundred typical mistakes, and whether each message helps: graded by rules.

A message is one line on standard error, with the right exit status and no traceback.
It earns a point for naming the file, option or name that is wrong (`names`, all of
them), and a point for saying what mends it. Nothing runs but the command line itself.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

import forewarn.scenarios
from forewarn.cli import main
from tests.scenarios import learned

DEMO = Path(forewarn.scenarios.__file__).parent / "demo"
LEAST_MEAN = 1.9

MEND = re.compile(r"\(.+\)$|[Dd]id you mean|: run pip install ")
"""What a mend looks like: mostly the last words, in brackets, say it."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What somebody typed.

    Args:
        line: The words after `forewarn`, in the folder that `desk` makes.
        names: What the message must name.
        status: The exit status.
    """

    line: str
    names: tuple[str, ...]
    status: int = 2


def of(line: str, *names: str, status: int = 2) -> Mistake:
    return Mistake(line, names, status)


LEARN = "learn traces --out m.json --scenario tiny-road"
RUN = "run tiny-road --unguarded --out r"
MONITOR = "monitor traces/a.jsonl --law"
SLOW = "--law 'always speed < 90 km/h'"

MISTAKES = (
    # commands and options
    of("lern", "lern"),
    of("Run s3", "Run"),
    of("run", "SCENARIO"),
    of("learn traces", "--out"),
    of("learn --out m.json", "FILES"),
    of("run tiny-road --modle road.json", "--modle"),
    of("run tiny-road --episodes many", "--episodes", "many"),
    of("run tiny-road --episodes 0", "--episodes", "0"),
    of("run tiny-road --seed -3", "--seed", "-3"),
    of("run tiny-road --horizon nan", "--horizon", "nan"),
    of("run tiny-road --model road.json --intervene brake", "brake"),
    of("run tiny-road --model road.json --intervene alert,stop --threshold 0.3",
       "--threshold"),
    of("run tiny-road --model road.json --intervene stop --threshold 30",
       "--threshold"),
    of("learn traces --format csv --out m.json", "--format", "csv"),
    of(f"{LEARN} --group driver", "--group", "auto"),
    of(f"{LEARN} --abstraction auto --facts runs.csv", "--facts", "--group"),
    of("doctor carl", "carl"),
    of("export road.json --format prims", "--format", "prims"),
    of("carla gaurd", "gaurd"),
    # scenarios
    of("run S33", "S33"),
    of("run tiny_raod --unguarded", "tiny_raod"),
    of("run tiny-road.yaml --unguarded", "tiny-road.yaml"),
    of("run household:no_such_task --unguarded", "no_such_task"),
    of("run broken.yaml --unguarded", "broken.yaml", "line 3"),
    of("run extra_key.yaml --unguarded", "extra_key.yaml", "pilto"),
    of("run no_law.yaml --unguarded", "no_law.yaml", "laws"),
    of("run other_world.yaml --unguarded", "other_world.yaml", "teeny"),
    of("run other_format.yaml --unguarded", "other_format.yaml", "format"),
    of("run wrong_law.yaml --unguarded", "wrong_law.yaml", "laws"),
    of(f"{RUN} --world sumoo", "sumoo"),
    of(f"{RUN} --pilot tinny", "tinny"),
    of(f"{RUN} --set reckless", "--set", "reckless"),
    of(f"{RUN} --set rekless_share=1", "rekless_share"),
    of("scenarios tiny-lane", "tiny-lane"),
    # traces
    of("learn nowhere --scenario tiny-road --out m.json", "nowhere"),
    of("learn empty --scenario tiny-road --out m.json", "empty"),
    of(f"{MONITOR} 51_5".replace("a.jsonl", "a.json"), "a.json"),
    of("monitor nothing.jsonl --law 51_5", "nothing.jsonl"),
    of("monitor no_header.jsonl --law 51_5", "no_header.jsonl"),
    of("monitor half.jsonl --law 51_5", "half.jsonl", "line 4"),
    of("monitor word.jsonl --law 51_5", "word.jsonl", "line 2", "speed"),
    of("monitor back.jsonl --law 51_5", "back.jsonl", "line 3"),
    of("monitor no_unit.jsonl --law 51_5", "no_unit.jsonl", "sped"),
    of("monitor cut.jsonl.gz --law 51_5", "cut.jsonl.gz"),
    of("monitor table.csv --law 51_5", "table.csv"),
    of("monitor table.csv --law 51_5 --period 0.1 --vocabulary driving --map v=sped",
       "sped"),
    of("monitor table.csv --law 51_5 --vocabulary drivin", "drivin"),
    of("monitor page.html --law 51_5", "page.html"),
    of("monitor empty --law 51_5", "empty"),
    # laws
    of(f"{MONITOR} no_colision", "--law", "no_colision"),
    of(f"{MONITOR} 51-5", "--law", "51-5"),
    of(f"{MONITOR} 999", "--law", "999"),
    of(f"{MONITOR} 'always (speed > 3'", "--law", "column"),
    of(f"{MONITOR} 'always sped > 3 km/h'", "--law", "sped"),
    of(f"{MONITOR} 'always speed > 3 kmh'", "--law", "kmh"),
    of(f"{MONITOR} 'always speed > 3 m'", "--law", "speed"),
    of(f"{MONITOR} 'always speed'", "--law", "speed"),
    of(f"{MONITOR} 'always (speed => 3 km/h)'", "--law", "column"),
    of(f"{MONITOR} 'always traffic_light == rde'", "--law", "rde"),
    of(f"{MONITOR} 'eventually[3,1 s] braking'", "--law", "column"),
    of(f"{MONITOR} 'always eventually[0,5] braking'", "--law", "column"),
    of(f"{MONITOR} 'always eventually[0,90000 s] braking'", "--law"),
    of("laws 60_1", "60_1"),
    of("laws --book own_laws.yaml careful", "own_laws.yaml", "formulla"),
    # abstractions and models
    of("learn traces --abstraction none.yaml --out m.json", "none.yaml"),
    of("learn traces --abstraction bare.yaml --out m.json", "bare.yaml", "predicate 1"),
    of("learn traces --abstraction typo.yaml --out m.json", "typo.yaml",
       "lead_distanc"),
    of("learn traces --abstraction list.yaml --out m.json", "list.yaml"),
    of("learn traces --abstraction other.yaml --out m.json", "other.yaml",
       "vocabulary"),
    of("learn traces --out m.json", "a.jsonl"),
    of(f"learn traces --out m.json {SLOW} --alpha small", "--alpha"),
    of(f"learn traces --out m.json {SLOW} --support valid.json", "valid.json"),
    of("learn traces --scenario s3 --out m.json", "a.jsonl", "does not provide"),
    of("monitor semicolons.csv --law 'always v < 3' --map v=speed", "commas"),
    of(f"{MONITOR} 'always speed < 50 kph'", "--law", "km/h"),
    of("convert traces --out traces", "--out", "traces"),
    of("show road.jsn", "road.jsn"),
    of("show road.json --law no_collision", "--law", "--risk"),
    of("export road.json --of no_colision --format csv", "road.json", "no_collision"),
    of("monitor traces --law no_collision --out v.csv", "--out", ".parquet"),
    of(f"{MONITOR} 51_5 --period 100ms", "--period", "100ms", "only a number"),
    of("tune tiny-road --model road.json --cost 5% --out p", "write 0.05"),
    of("scenarios end", "end.yaml"),
    of("apollo guard --fake s2 --told rain=heavy --model road.json", "--told"),
    of("warrant renew traces traces", "traces", "certificate.json"),
    of("rules lint own.yaml --predicates around.yaml", "predicates.odd", "even"),
    of("guard-program compile bare.md --spec bare.md --how replay --out p.yaml",
       "--how", "--replies"),
    of("guard-program compile bare.md --spec bare.md --functions bad.py --out p.yaml",
       "bad.py", "line 1"),
    of("show traces/a.jsonl", "a.jsonl"),
    of("show half.json", "half.json"),
    of("show sums.json", "sums.json", "state 'a'"),
    of("show newer.json", "newer.json", "format"),
    of("run s3 --model road.json --out r", "road.json"),
    of("measure tiny-road --model road.json --seed 0 --episodes 2", "--seed"),
    of("learn traces --update bare.json --out m.json --law 51_5", "bare.json"),
    # policies
    of("run tiny-road --model road.json --policy nope.yaml", "nope.yaml"),
    of("run tiny-road --model road.json --policy no_format.yaml", "no_format.yaml",
       "format"),
    of("run tiny-road --model road.json --policy kind.yaml", "kind.yaml", "brake"),
    of("run tiny-road --model road.json --policy order.yaml", "order.yaml"),
    of("run tiny-road --model road.json --policy percent.yaml", "percent.yaml"),
    of("run tiny-road --model road.json --policy whose.yaml", "whose.yaml", "51_5"),
    # questions to a model
    of("check road.json", "--prop"),
    of("check road.json --prop 'P=? [F<=5 speed]'", "P=?", "column 11"),
    of("check road.json --prop 'P=? [F<=5 \"sped > 3\"]'", "P=?", "sped"),
    of("check road.json --prop 'P=? [F<=5 \"collision\"]' --from 01", "01"),
    of("check road.json --prop 'P=? [F<=5s \"collision\"]'", "column 10", "steps"),
    of("check road.json --law 51-5", "--law", "51-5"),
    # records, reports, others' files
    of("verify run.run.jsonl", "run.run.jsonl"),
    of("replay traces", "traces"),
    of("report traces/a.jsonl", "a.jsonl"),
    of("import page.html --out m.json", "page.html"),
    of("export road.json --format umb", "--out"),
    of("rules lint rules.yaml", "rules.yaml"),
    of("rules lint enforced.yaml", "enforced.yaml: rules.0.enforce: 'block'"),
    of("rules import enforced.yaml --out r.yaml", "enforced.yaml", "line 1"),
    of("rules score --rules own.yaml --traces traces/a.jsonl", "a.jsonl", "events"),
    of("guard-program evaluate --cases no.jsonl --kind rules --roles road.json",
       "--roles", "--kind"),
    of("mcp guard --law 'always not tool == x' -- true", "true", status=3),
    of("run end.yaml --unguarded", "end.yaml: end:", "max_time_s"),
    of("guard --model road.json", "--stdio", "--socket"),
    of("guard --model road.json --socket 127.0.0.1:0", "--token-file"),
    of("apollo map crosing --out m.bin", "crosing"),
)  # fmt: skip

RULES = """format: forewarn.rules/1
domain: household
rules:
- {name: no-metal, before: put, when: held_metal, enforce: skip}
"""

HEADER = {
    "format": "forewarn.trace/1",
    "vocabulary": "driving",
    "provides": ["speed", "traffic_light", "braking"],
    "period_s": 0.1,
}


def frame(sequence: int, **signals: object) -> dict[str, object]:
    values = {"speed": 30.0, "traffic_light": "green", "braking": False, **signals}
    return {"sequence": sequence, "time_s": sequence / 10, "signals": values}


def lines(*content: object) -> str:
    return "".join(json.dumps(each) + "\n" for each in content)


def scenario(before: str, after: str) -> str:
    """The scenario tiny-road with something of it changed."""
    path = DEMO.parent / "tiny" / "tiny-road.yaml"
    text = path.read_text(encoding="utf-8")
    assert before in text
    return text.replace(before, after, 1)


def policy(rules: str) -> str:
    return f"format: forewarn.policy/1\nrules: {rules}\n"


def predicates(text: str, vocabulary: str = "vocabulary: driving\n") -> str:
    return (
        f"format: forewarn.abstraction/1\nname: x\nperiod_s: 0.1\n{vocabulary}"
        f"predicates: {text}\n"
    )


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the mistakes are made with."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "traces").mkdir()
    (folder / "empty").mkdir()
    road = learned.model("tiny-road")
    content = json.loads(road.read_text())
    fair = lines(HEADER, frame(0), frame(1), frame(2))
    text = {
        "road.json": road.read_text(),
        "traces/a.jsonl": fair,
        "nothing.jsonl": "",
        "no_header.jsonl": lines(frame(0), frame(1)),
        "half.jsonl": fair[: len(fair) - 90],
        "word.jsonl": lines(HEADER, frame(0, speed="fast")),
        "back.jsonl": lines(HEADER, frame(1), frame(0)),
        "no_unit.jsonl": lines({**HEADER, "provides": ["sped"]}, frame(0)),
        "table.csv": "v,light\n3,red\n4,red\n",
        "page.html": "<!doctype html><title>Not found</title>",
        "own_laws.yaml": "format: forewarn.laws/1\nlaws:\n  careful:\n"
        "    title: Be careful\n    formulla: always braking\n",
        "bare.yaml": predicates("[speed < 5 km/h]", ""),
        "typo.yaml": predicates("[lead_distanc < 5 m]"),
        "list.yaml": "- speed < 5 km/h\n",
        "other.yaml": predicates("[speed < 5 km/h]", "vocabulary: drivng\n"),
        "valid.json": "[1, 2]",
        "half.json": road.read_text()[:300],
        "sums.json": json.dumps(
            {
                "format": "forewarn.model/1",
                "states": ["a", "b"],
                "rows": {"a": {"b": 0.4}, "b": {"a": 1.0}},
            }
        ),
        "bare.json": json.dumps(
            {
                "format": "forewarn.model/1",
                "states": ["a", "b"],
                "rows": {"a": {"b": 1.0}, "b": {"a": 1.0}},
            }
        ),
        "newer.json": json.dumps({**content, "format": "forewarn.model/9"}),
        "broken.yaml": "format: forewarn.scenario/1\nname: x\n  world: [\n",
        "extra_key.yaml": scenario("\npilot:", "\npilto:"),
        "no_law.yaml": scenario("\nlaws:", "\nlaw:"),
        "other_world.yaml": scenario("name: tiny\n", "name: teeny\n"),
        "other_format.yaml": scenario("scenario/1", "scenario/7"),
        "wrong_law.yaml": scenario("always (", "allways ("),
        "no_format.yaml": "rules: []\n",
        "kind.yaml": policy("[{law: '*', thresholds: {brake: 0.5}}]"),
        "order.yaml": policy("[{law: '*', thresholds: {alert: 0.8, stop: 0.3}}]"),
        "percent.yaml": policy("[{law: '*', thresholds: {stop: 80}}]"),
        "whose.yaml": policy("[{law: '51_5', thresholds: {stop: 0.5}}]"),
        "rules.yaml": "rules: 3\n",
        "enforced.yaml": RULES.replace("skip", "block"),
        "own.yaml": RULES,
        "around.yaml": "format: forewarn.predicates/1\ndomain: household\npredicates:\n"
        "  odd: {doc: x, when: not even}\n  even: {doc: y, when: not odd}\n",
        "bare.md": "- a child may not turn on the stove\n",
        "bad.py": "def risky(x)\n    return x\n",
        "semicolons.csv": "time_s;v\n0;3,5\n",
        "end.yaml": scenario("end:\n  max_time_s: 30", "end: 30"),
    }
    for name, written in text.items():
        (folder / name).write_text(written, encoding="utf-8")
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(fair.encode())[:-20])
    return folder


def grade(mistake: Mistake) -> tuple[int, str]:
    """0 to 2, and what was said."""
    done = CliRunner().invoke(main, shlex.split(mistake.line))
    said = done.stderr.strip()
    spoken = f"[{done.exit_code}] {said or done.stdout[-300:]}"
    one_line = said and len(said.splitlines()) == 1 and "a defect" not in said
    if done.exit_code != mistake.status or not one_line:
        return 0, spoken
    return all(name in said for name in mistake.names) + bool(MEND.search(said)), spoken


@pytest.mark.slow
def test_one_hundred_mistakes_get_clear_messages(
    desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    assert len(MISTAKES) == len({mistake.line for mistake in MISTAKES}) >= 100
    graded = [(*grade(mistake), mistake.line) for mistake in MISTAKES]
    mean = sum(points for points, *_ in graded) / len(graded)
    worst = "\n".join(
        f"{points} forewarn {line}\n    {said}"
        for points, said, line in sorted(graded)
        if points < 2
    )
    print(f"mean grade of {len(graded)} messages: {mean:.2f} of 2\n{worst}")
    assert mean >= LEAST_MEAN, worst
    unmended = [line for _, said, line in graded if not MEND.search(said)]
    assert unmended == [], "each message says what mends it"
