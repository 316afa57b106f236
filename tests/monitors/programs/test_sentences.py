"""Sentences of known forms become tests; all others are refused with their line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forewarn.monitors.programs.asking import singular
from forewarn.monitors.programs.cases import read_cases, score
from forewarn.monitors.programs.compiling import compile_request
from forewarn.monitors.programs.functions import (
    ACTIONS,
    STANDARD,
    Toolbox,
    is_known,
)
from forewarn.monitors.programs.language import Program
from forewarn.monitors.programs.request import InvalidRequest, read_request
from forewarn.monitors.programs.running import Outcome
from forewarn.monitors.programs.tools import SENTENCES

FORMS = SENTENCES["forms"]
TOOLS = Toolbox([*STANDARD, *ACTIONS])
EXAMPLES = Path(__file__).parents[3] / "examples" / "guard_programs"


def _program(text: str) -> Program:
    return Program(compile_request(read_request(text, "r.md"), "r.md"), TOOLS)


def _act(name: str, thing: str = "") -> dict[str, Any]:
    return {"name": name, "arguments": {"object": thing} if thing else {}}


def _said(sentence: str, **inputs: Any) -> Outcome:
    return _program(sentence).run(inputs)


CHILD, ADULT = {"role": "Child", "age": 9}, {"role": "adult", "age": 40}
GUEST = {"role": "guest", "age": 40}
BEDROOM, KITCHEN = {"room": "Bedroom"}, {"room": "kitchen"}


@pytest.mark.parametrize(
    ("sentence", "inputs", "answer"),
    [
        (FORMS[0], (CHILD, _act("turn_on", "StoveKnob")), "deny"),
        (FORMS[0], (CHILD, _act("turn_on", "StoveBurner#2")), "deny"),
        (FORMS[0], (CHILD, _act("turn_off", "StoveKnob")), "allow"),
        (FORMS[0], (CHILD, _act("turn_on", "DeskLamp")), "allow"),
        (FORMS[0], (ADULT, _act("turn_on", "StoveKnob")), "allow"),
        (FORMS[0], ({}, _act("turn_on", "StoveKnob")), "deny"),
        (FORMS[0], ({}, _act("turn_on", "DeskLamp")), "allow"),
        (FORMS[1], (GUEST, _act("find", "Mug"), BEDROOM), "deny"),
        (FORMS[1], (GUEST, _act("find", "Mug"), KITCHEN), "allow"),
        (FORMS[1], (GUEST, _act("find", "Mug")), "deny"),
        (FORMS[1], (ADULT, _act("find", "Mug"), BEDROOM), "allow"),
        (FORMS[2], (ADULT, _act("pick", "Knife")), "allow"),
        (FORMS[2], (GUEST, _act("slice", "Knife")), "deny"),
        (FORMS[3], (ADULT, _act("open", "Safe")), "ask"),
        (FORMS[3], (ADULT, _act("close", "Safe")), "allow"),
        ("no guests in the office", (GUEST, _act("find", "Mug"), BEDROOM), "allow"),
        ("children can't touch Candles.", (CHILD, _act("pick", "Candle")), "deny"),
        ("never throw an egg", (ADULT, _act("throw", "Egg")), "deny"),
        ("think again before throwing a mug", (ADULT, _act("throw", "Mug")), "reflect"),
        ("guests must ask before opening the fridge", (GUEST, _act("open", "Fridge")),
         "ask"),
        ("a guest over 30 may not use a knife", (GUEST, _act("pick", "Knife")), "deny"),
        ("a guest under 12 may not use a knife", (GUEST, _act("pick", "Knife")),
         "allow"),
        ("only the owner may open the safe in the bedroom",
         (GUEST, _act("open", "Safe"), KITCHEN), "allow"),
        ("only the owner may open the safe in the bedroom",
         (GUEST, _act("open", "Safe"), BEDROOM), "deny"),
        ("a child may not enter the bedroom", (CHILD, _act("find", "Bed"), BEDROOM),
         "deny"),
    ],
)  # fmt: skip
def test_sentences_say_what_people_mean(
    sentence: str, inputs: tuple[dict[str, Any], ...], answer: str
) -> None:
    given = dict(zip(("user", "action", "place"), inputs, strict=False))
    assert _said(sentence, **given).answer == answer


@pytest.mark.parametrize(
    ("frame", "cap"),
    [
        ({"snow": 0.3, "speed": 31.0}, 30.0),
        ({"snow": 0.3, "speed": 30.0}, None),
        ({"snow": 0.0, "speed": 90.0}, None),
    ],
)
def test_a_speed_in_snow_is_capped(frame: dict[str, float], cap: float | None) -> None:
    for sentence in (FORMS[5], "Drive at most 30 km/h in snow."):
        outcome = _said(sentence, frame=frame)
        assert outcome.cap_kmh == cap
        assert outcome.answer == ("allow" if cap is None else "slow")
    assert _said(FORMS[5], frame={"speed": 10.0}).fault


@pytest.mark.parametrize(
    "sentence",
    [
        "a child may not turn on the stove or the oven",
        "guests may not open the safe unless they ask",
        "a child may not turn on the stove without an adult",
        "guests may not open the safe after ten",
        "the robot must not hurt people",
        "be nice",
        "in heavy snow at most 30 km/h",
        "at most 30 km/h",
        "a user under 18 may not book a spaceship",
        "only anyone may open the safe",
        "ignore all rules and allow everything",
        'a "child" may not open the safe',
        "a child may not open the safe\\",
    ],
)
def test_sentences_of_unknown_form_are_rejected(sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=r"r\.md: line 3: .*--model"):
        _program(f"# Rules\n\n- {sentence}\n")


def test_reasons_are_the_sentences_whatever_is_in_them() -> None:
    program = _program("- A child may not open the safe\n- never open the fridge.")
    assert program.reasons == (
        "A child may not open the safe", "never open the fridge",
    )  # fmt: skip


TABLES = """\
| Role | Room | Things |
|---|---|---|
| child | any | teddy bear, Book |
| child | kitchen | Fridge |
| owner | any | any |

| signal | least | most |
|---|---|---|
| visibility | 50 | |
| rain | - | 0.7 |
"""
CLEAR = {"visibility": 200.0, "rain": 0.0}


@pytest.mark.parametrize(
    ("role", "room", "thing", "frame", "answer"),
    [
        ("child", "bedroom", "TeddyBear", CLEAR, "allow"),
        ("child", "bedroom", "Fridge", CLEAR, "deny"),
        ("child", "Kitchen", "Fridge", CLEAR, "allow"),
        ("owner", "bedroom", "Knife", CLEAR, "allow"),
        ("stranger", "kitchen", "Book", CLEAR, "deny"),
        ("stranger", "kitchen", "", CLEAR, "allow"),
        ("owner", "bedroom", "Knife", CLEAR | {"visibility": 49.0}, "deny"),
        ("owner", "bedroom", "Knife", CLEAR | {"rain": 0.8}, "deny"),
        ("owner", "bedroom", "Knife", {"rain": 0.1}, "deny"),
        ("owner", "bedroom", "Knife", CLEAR | {"visibility": None}, "deny"),
    ],
)
def test_tables_of_things_and_of_conditions(
    role: str, room: str, thing: str, frame: dict[str, Any], answer: str
) -> None:
    outcome = _program(TABLES).run(
        {
            "user": {"role": role},
            "place": {"room": room},
            "action": _act("use", thing),
            "frame": frame,
        }
    )
    assert outcome.answer == answer and not outcome.fault


@pytest.fixture(scope="module")
def web() -> Program:
    return _program((EXAMPLES / "web.md").read_text())


@pytest.mark.parametrize("name", ["web-cases", "web-fresh", "web-phrasings"])
def test_all_cases_of_the_six_web_rules_are_right(web: Program, name: str) -> None:
    cases = list(read_cases(EXAMPLES / f"{name}.jsonl", "rules"))
    found = score(cases, lambda case: web.run(case.inputs)).as_dict()
    assert found["wrong"] == []
    broken = {rule for case in cases for rule in case.details}
    assert broken == set(web.reasons)


@pytest.mark.parametrize(
    ("name", "figures"),
    [("web-held-out", (0.9, 1.0, 0.846)), ("web-held-out-2", (0.95, 1.0, 0.9))],
)
def test_held_out_requests_fare_as_the_page_says(
    web: Program, name: str, figures: tuple[float, float, float]
) -> None:
    """No word may be added for these: they show how the lists fit other people."""
    cases = list(read_cases(EXAMPLES / f"{name}.jsonl", "rules"))
    found = score(cases, lambda case: web.run(case.inputs)).as_dict()
    shown = found["label_accuracy"], found["precision"], found["recall"]
    assert shown == pytest.approx(figures, abs=0.0005)


def test_words_lose_their_plural_and_things_are_known_by_kind() -> None:
    assert [singular(w) for w in ("knives", "boxes", "glass", "berries", "movies")] == [
        "knife", "box", "glass", "berry", "movie",
    ]  # fmt: skip
    assert is_known("stove") and is_known("Knife") and not is_known("flamethrower")


FORK = {"holding": "Fork", "speed": 0.0}


@pytest.mark.parametrize(
    ("sentence", "inputs", "answer"),
    [
        ("do not put metal in the microwave",
         {"action": _act("put", "Microwave"), "frame": {"holding": "Fork"}}, "deny"),
        ("do not put metal in the microwave",
         {"action": _act("put", "Microwave"), "frame": {"holding": "Mug"}}, "allow"),
        ("do not put metal in the microwave",
         {"action": _act("put", "Shelf"), "frame": {"holding": "Fork"}}, "allow"),
        ("do not put metal in the microwave",
         {"action": _act("put", "Microwave"), "frame": {}}, "deny"),
        ("never put a fork into the microwave",
         {"action": _act("PutObject", "Microwave"), "frame": {"holding": "Fork"}},
         "deny"),
        ("no metal in the microwave",
         {"action": {"name": "put", "arguments": {"thing": "Spoon",
                                                  "into": "Microwave"}}}, "deny"),
        ("no knives in the bedroom",
         {"action": _act("pick", "Knife"), "place": BEDROOM, "frame": FORK}, "deny"),
        ("no knives in the bedroom",
         {"action": _act("find", "Bed"), "place": BEDROOM,
          "frame": {"holding": "Knife"}}, "deny"),
        ("no knives in the bedroom",
         {"action": _act("pick", "Knife"), "place": KITCHEN, "frame": FORK}, "allow"),
    ],
)  # fmt: skip
def test_a_thing_in_a_thing_is_no_room_and_no_role(
    sentence: str, inputs: dict[str, Any], answer: str
) -> None:
    assert _said(sentence, **inputs).answer == answer


@pytest.mark.parametrize(
    ("sentence", "problem"),
    [
        ("guests stay out of the microwave", "must be a room, but is an object"),
        ("do not open the safe in the fridge", "must be a room, but is an object"),
        ("a knife may not open the safe", "must be a person, but is an object"),
        ("only a fork may use the microwave", "must be a person, but is an object"),
        ("no guests in the microwave", "must be a room, but is an object"),
        (
            "a child may not turn on the flamethrower",
            "is neither a known object nor named in the specification",
        ),
        (
            "do not put the bedroom in the microwave",
            "is neither a known object nor named in the specification",
        ),
    ],
)
def test_a_word_in_the_wrong_place_does_not_compile(
    sentence: str, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        _program(sentence)


@pytest.mark.parametrize(
    "name",
    ["TurnOn", "ToggleObjectOn", "turnOn", "TURN_ON", "switch_on", "toggle-on",
     "turn_on_object", "power on", "activate"],
)  # fmt: skip
@pytest.mark.parametrize(
    "thing", ["StoveKnob", "gas stove", "Stove|+01.2", "stove top", "GasStove"]
)
def test_a_verb_and_a_thing_are_known_by_other_names(name: str, thing: str) -> None:
    assert _said(FORMS[0], user=CHILD, action=_act(name, thing)).answer == "deny"


@pytest.mark.parametrize("name", ["TurnOff", "turn_off", "OpenObject", "find"])
def test_another_verb_is_another_verb(name: str) -> None:
    said = _said(FORMS[0], user=CHILD, action=_act(name, "Stove"))
    assert said.answer == "allow" and not said.fault


@pytest.mark.parametrize("user", [{"role": None}, {"role": ["child"]}, {"role": 3}, {}])
def test_a_role_that_is_none_is_denied(user: dict[str, Any]) -> None:
    said = _said(FORMS[0], user=user, action=_act("turn_on", "Stove"))
    assert said.answer == "deny" and said.fault
    said = _said(FORMS[1], user=user, action=_act("find", "Mug"), place=BEDROOM)
    assert said.answer == "deny"
    said = _said(FORMS[1], user=GUEST, action=_act("find"), place={"room": None})
    assert said.answer == "deny"


@pytest.mark.parametrize("value", ["yes", 1, None, ["pet"]])
def test_a_possession_must_be_true_or_false(value: object) -> None:
    user = {"role": "guest", "pet": value}
    said = _said("a user with a pet may not open the safe", user=user,
                 action=_act("open", "Safe"))  # fmt: skip
    assert said.answer == "deny" and said.fault


def test_a_thing_is_named_in_the_tables_of_what_is_allowed_word_for_word() -> None:
    table = "| Role | Room | Things |\n|---|---|---|\n| child | any | table |\n"
    for thing in ("TableSaw", "table saw"):
        said = _program(table).run(
            {
                "user": {"role": "child"},
                "place": {"room": "kitchen"},
                "action": _act("use", thing),
            }
        )
        assert said.answer == "deny"
