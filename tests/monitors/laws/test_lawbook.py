"""The law book: complete, readable, compilable; and users' own law files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import ForewarnError, InvalidExpression
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.laws.automaton import Automaton
from forewarn.monitors.laws.formula import parse_formula
from forewarn.monitors.laws.lawbook import (
    EDITIONS,
    Edition,
    InvalidLaw,
    LawBook,
    find_laws,
    law_book,
)
from forewarn.monitors.laws.monitor import Monitor
from tests.monitors.laws.named import load_law

BOOK = """38_1 38_2 38_3 42 44 45 46_2 46_3 47 50 51_3 51_4 51_5 51_6 51_7 52 53 57 58
59 62 no_collision stay_on_road near_miss_ttc near_miss_pet near_miss_drac""".split()

# Bounds in seconds, by law and edition, as their authors wrote them.
SECONDS = {
    "38_1": ("10 s", "2 s"),
    "38_2": ("10 s", "2 s"),
    "38_3": ("10 s", "2 s"),
    "44": ("600 s", None),
    "51_5": ("2 s", "2 s"),
    "51_7": ("2 s", "2 s"),
    "52": ("30 s", "2 s"),
    "53": ("20 s", "2 s"),
}

# Names of states at the clock of 0.1 s, or the one that the book states.
SIZES = {
    "38_1": 102, "38_2_stop": 102, "38_2_go_on": 102, "38_3_stop": 102,
    "38_3_turn": 102, "44_lowest": 6002, "44_highest": 2, "42": 2, "45": 2,
    "46_2": 2, "46_3": 2, "47": 100, "50": 2, "51_3": 2, "51_4": 74, "51_5": 22,
    "51_6": 23, "51_7": 22, "52": 302, "53": 202, "57": 2, "58": 2, "59": 162,
    "62": 2, "no_collision": 2, "stay_on_road": 2,
    "near_miss_ttc": 2, "near_miss_pet": 2, "near_miss_drac": 2,
}  # fmt: skip


@cache
def compiled(name: str, edition: Edition = "probguard") -> Automaton:
    """That law at a clock of 0.1 s, or the one that the book states."""
    law, usual = load_law(name, edition), load_law(name)
    if edition != "probguard" and law.formula == usual.formula:
        return compiled(name)
    return law.compile(0.1)


@pytest.mark.parametrize("edition", EDITIONS)
def test_the_book_is_complete(edition: Edition) -> None:
    assert list(law_book(edition).laws) == BOOK


@pytest.mark.parametrize("edition", EDITIONS)
@pytest.mark.parametrize("name", BOOK)
def test_every_law_compiles_at_its_clock(name: str, edition: Edition) -> None:
    law = load_law(name, edition)
    automaton = compiled(name, edition)
    assert automaton.violated > 0
    assert automaton.period_s == (law.clock_s or 0.1)
    assert law.title and (
        law.article or law.note or name in ("no_collision", "stay_on_road")
    )
    assert set(law.signals) <= set(load_vocabulary("driving").signals)
    Monitor(automaton)


@pytest.mark.parametrize(("name", "states"), SIZES.items())
def test_laws_of_the_book_have_the_known_sizes(name: str, states: int) -> None:
    assert compiled(name).n == states


@pytest.mark.parametrize("name", SECONDS)
def test_editions_have_their_own_times(name: str) -> None:
    for edition, seconds in zip(EDITIONS, SECONDS[name], strict=True):
        text = repr(load_law(name, edition).formula)
        if seconds is None:
            assert "eventually" not in text
        else:
            assert f"eventually[0, {seconds}]" in text


@pytest.mark.parametrize("name", ["47", "51_4", "51_6", "59"])
def test_exponential_laws_state_a_clock_that_is_no_finer(name: str) -> None:
    law = load_law(name)
    assert law.clock_s in (0.5, 1.0)
    assert law.period(0.1) == law.clock_s
    assert law.period(None) == law.clock_s
    assert law.period(2.0) == 2.0


@pytest.mark.parametrize("edition", EDITIONS)
def test_formulas_print_what_parses_back(edition: Edition) -> None:
    driving = load_vocabulary("driving")
    for law in law_book(edition).every().values():
        assert parse_formula(repr(law.formula), driving) == law.formula


@pytest.mark.parametrize(
    "name", ["51_5", "rule51_5", "law51_5", "Law51_5", "rule_51_5", " 51_5 "]
)
def test_a_law_answers_to_all_its_names(name: str) -> None:
    assert load_law(name).name == "51_5"


def test_no_collision_answers_to_its_names() -> None:
    for name in ("no_collision", "NoCollision", "noCollision"):
        assert load_law(name).name == "no_collision"


def test_an_article_stands_for_its_laws() -> None:
    names = [law.name for law in find_laws("51")]
    assert names == ["51_3", "51_4", "51_5", "51_6", "51_7"]


def test_a_part_is_a_law_by_itself() -> None:
    part = load_law("rule38_2_stop")
    assert part.name == "38_2_stop" and not part.parts
    assert part in load_law("38_2").parts


def test_a_law_in_parts_has_the_signals_of_all_parts() -> None:
    law = load_law("44")
    assert [part.name for part in law.parts] == ["44_lowest", "44_highest"]
    assert set(law.signals) == {"lane_count", "speed", "speed_limit"}


def test_an_unknown_law_names_its_near_miss() -> None:
    with pytest.raises(InvalidLaw, match="did you mean 51_5"):
        load_law("rule51_55")
    with pytest.raises(InvalidLaw, match="forewarn laws"):
        load_law("zzz")


def test_a_formula_is_a_law_named_by_its_text() -> None:
    text = "always (a -> eventually[0, 2 s] b)"
    law = load_law(text)
    assert law.name == law.text == text and law.signals == ("a", "b")
    with pytest.raises(InvalidExpression):
        load_law("always (a -> ")


# -- what each law says, on a single frame or two ------------------------------------


BASE: dict[str, Any] = {
    "speed": 20.0, "traffic_light": None, "traffic_light_blinking": None,
    "stop_line_distance": None, "junction_distance": None, "lane_count": 2.0,
    "direction": "forward", "priority_vehicle": False, "priority_pedestrian": False,
    "speed_limit": None, "speed_limit_min": None, "turning_around": False,
    "rain": 0.0, "fog": 0.0, "snow": 0.0, "visibility": 100.0, "overtaking": False,
    "turn_signal": "off", "horn_on": False, "high_beam_on": False,
    "low_beam_on": False, "lane_changing": False, "nearest_distance": None,
    "gear": "drive", "time_of_day": 12.0, "lead_distance": None, "lead_speed": None,
    "signal_ahead": False, "traffic_jam": False, "honking_allowed": True,
    "street_light_on": True, "fog_light_on": False, "warning_flash_on": False,
    "crosswalk_distance": None, "collision": False, "off_road": False,
    "time_to_collision": None,
    "post_encroachment_time": None, "deceleration_to_avoid_crash": None,
}  # fmt: skip

# What makes each law demand something that BASE does not give, in its own edition.
TRIGGERS: list[tuple[str, Edition, dict[str, Any]]] = [
    ("38_1", "probguard", {"traffic_light": "green", "speed": 0.0}),
    (
        "38_1",
        "lawbreaker",
        {"traffic_light": "green", "stop_line_distance": 2.0, "speed": 0.0},
    ),
    ("38_2", "probguard", {"traffic_light": "yellow"}),
    (
        "38_2",
        "probguard",
        {"traffic_light": "yellow", "lane_count": 0.0, "speed": 0.0},
    ),
    ("38_2", "lawbreaker", {"traffic_light": "yellow", "stop_line_distance": 1.0}),
    ("38_3", "probguard", {"traffic_light": "red", "junction_distance": 2.0}),
    (
        "38_3",
        "lawbreaker",
        {
            "traffic_light": "red",
            "junction_distance": 0.0,
            "direction": "right",
            "speed": 0.0,
        },
    ),
    (
        "42",
        "probguard",
        {
            "traffic_light": "yellow",
            "traffic_light_blinking": True,
            "junction_distance": 1.0,
        },
    ),
    ("44", "probguard", {"speed": 10.0}),
    ("44", "probguard", {"speed_limit": 15.0}),
    ("44", "lawbreaker", {"speed_limit_min": 30.0}),
    ("44", "lawbreaker", {"lane_changing": True, "priority_vehicle": True}),
    ("45", "probguard", {"speed_limit": 19.0}),
    ("45", "probguard", {"speed_limit_min": 21.0}),
    ("46_2", "probguard", {"direction": "left", "speed": 31.0}),
    ("46_2", "probguard", {"turning_around": True, "speed": 31.0}),
    ("46_3", "probguard", {"rain": 0.5, "speed": 31.0}),
    ("46_3", "lawbreaker", {"visibility": 50.0, "speed": 31.0}),
    ("47", "probguard", {"overtaking": True}),
    ("50", "probguard", {"gear": "reverse"}),
    ("51_3", "probguard", {"traffic_light": "green", "direction": "left"}),
    (
        "51_3",
        "probguard",
        {
            "traffic_light": "green",
            "direction": "left",
            "turn_signal": "left",
            "time_of_day": 20.0,
        },
    ),
    ("51_4", "probguard", {"traffic_light": "green", "speed": 0.0}),
    (
        "51_4",
        "probguard",
        {"traffic_light": "green", "lead_distance": 0.5, "lead_speed": 30.0},
    ),
    ("51_5", "probguard", {"traffic_light": "red", "lead_distance": 0.5}),
    (
        "51_6",
        "probguard",
        {"direction": "right", "lead_distance": 2.0, "lead_speed": 1.0},
    ),
    ("51_7", "probguard", {"direction": "left", "priority_pedestrian": True}),
    ("52", "probguard", {"lead_distance": 1.0, "junction_distance": 1.0}),
    ("52", "lawbreaker", {"priority_vehicle": True, "junction_distance": 1.0}),
    ("53", "probguard", {"traffic_jam": True, "lead_speed": 1.7}),
    ("57", "probguard", {"direction": "right", "turn_signal": "left"}),
    ("58", "probguard", {"street_light_on": False, "time_of_day": 3.0}),
    ("58", "probguard", {"lead_distance": 10.0, "high_beam_on": True}),
    ("58", "probguard", {"fog": 0.5, "high_beam_on": True, "fog_light_on": True}),
    ("59", "probguard", {"crosswalk_distance": 5.0, "time_of_day": 23.0}),
    ("62", "probguard", {"honking_allowed": False, "horn_on": True}),
    ("no_collision", "probguard", {"collision": True}),
    ("stay_on_road", "probguard", {"off_road": True}),
    ("near_miss_ttc", "probguard", {"time_to_collision": 1.4}),
    ("near_miss_pet", "probguard", {"post_encroachment_time": 0.9}),
    ("near_miss_drac", "probguard", {"deceleration_to_avoid_crash": 3.4}),
]


@pytest.mark.parametrize(("name", "edition", "change"), TRIGGERS)
def test_a_law_is_broken_by_what_it_forbids(
    name: str, edition: Edition, change: dict[str, Any]
) -> None:
    automaton = compiled(name, edition)
    longest = int(600 / (automaton.period_s or 1.0)) + 1
    for values, broken in ((BASE, False), (BASE | change, True)):
        monitor = Monitor(automaton)
        found = any(monitor.step(values).status == "violated" for _ in range(longest))
        assert found is broken


def test_every_law_of_the_book_is_tested_above() -> None:
    assert {name for name, _, _ in TRIGGERS} == set(BOOK)


def test_a_missing_light_is_not_green_and_a_missing_vehicle_does_not_stand() -> None:
    standing = BASE | {"speed": 0.0, "traffic_jam": True}
    for name in ("38_1", "53"):
        monitor = Monitor(load_law(name).compile(0.5))
        assert {monitor.step(standing).status for _ in range(100)} == {"ok"}


def test_the_vehicle_ahead_stands_below_half_a_metre_a_second() -> None:
    jam = BASE | {"traffic_jam": True, "lead_speed": 1.9}
    assert Monitor(compiled("53")).step(jam).status == "ok"
    jam["lead_speed"] = 1.7
    assert Monitor(compiled("53")).step(jam).status == "pending"


# -- users' own law files ------------------------------------------------------------

OWN = """
format: forewarn.laws/1
vocabulary: household
definitions: {fork_in: "is_inside(Fork, Microwave)"}
laws:
  microwave:
    title: No fork in a running microwave
    formula: always not (fork_in and is_toggled(Microwave))
  faucet:
    title: Close the faucet
    formula: always (is_toggled(Faucet) -> eventually[0, 2 steps] not is_toggled(Faucet))
"""  # noqa: E501


def _own(folder: Path, old: str = "", new: str = "") -> Path:
    assert old in OWN
    path = folder / "own.yaml"
    path.write_text(OWN.replace(old, new, 1))
    return path


def test_a_users_own_law_file_loads(tmp_path: Path) -> None:
    book = law_book(path=_own(tmp_path))
    (law,) = find_laws("microwave", book)
    assert law.signals == ("is_inside(Fork, Microwave)", "is_toggled(Microwave)")
    assert find_laws("faucet", book)[0].compile().n == 4
    with pytest.raises(InvalidLaw):
        find_laws("51_5", book)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("laws/1", "laws/2", "format"),
        ("title: No", "titel: No", "did you mean title"),
        ("title: Close the faucet\n", "\n", "laws.faucet.title"),
        ("vocabulary: household", "vocabulary: hosehold", "."),
        ("vocabulary: household", "vocabulary: ../x.yaml", "is outside the folder"),
        ("is_toggled(Microwave))", "is_togled(Microwave))", "did you mean is_toggled"),
        ("formula: always not", "formula: always nt", "laws.microwave"),
        ("formula: always not", "editions: {probguard: a}\n    doc: always not", "doc"),
        ("always not (", "always not ((", "laws.microwave, column"),
        ("fork_in:", "holding:", "a signal already has this name"),
        ("fork_in:", '"fork in":', "a single word"),
        ("microwave:", '"the microwave":', "a single word"),
        ("is_inside(Fork, Microwave)", "is_inside(Fork)", "definitions.fork_in"),
    ],
)
def test_a_wrong_law_file_says_where(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    path = _own(tmp_path, old, new)
    with pytest.raises(ForewarnError, match=said) as caught:
        law_book(path=path)
    assert "own.yaml" in str(caught.value) or "hosehold" in str(caught.value)


def test_a_law_has_one_text_and_two_editions(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    for law, said in [
        ({"title": "x"}, "either 'formula' or 'editions'"),
        ({"title": "x", "editions": {"probguard": "a"}}, "probguard and lawbreaker"),
        ({"title": "x", "formula": {"one": "always a"}}, "at least two"),
        ({"title": "x", "formula": "always a", "clock_s": 0}, "clock_s"),
    ]:
        data = {"format": "forewarn.laws/1", "laws": {"x": law}}
        path.write_text(yaml.safe_dump(data))
        with pytest.raises(InvalidLaw, match=said):
            law_book(path=path)


words = st.sampled_from(
    """always eventually once until since next and or not -> ( ) [0, 2 s] [0, 3 steps]
    a b speed < > == 0.5 km/h red true none is [ ] , -1 ∀ \x00 \\ "q" [-1, 2
    s]""".split()
)


@given(st.lists(words | st.text(max_size=4), max_size=10).map(" ".join))
def test_any_text_is_a_law_or_refused(text: str) -> None:
    try:
        law = load_law(text)
        assert law.signals is not None
    except ForewarnError as error:
        assert "\n" not in str(error) or "\n" in text


@given(
    st.dictionaries(
        st.sampled_from(["title", "formula", "editions", "clock_s", "note", "parts"]),
        st.none() | st.integers() | st.text(max_size=5) | st.just({"a": "always b"}),
    )
)
def test_any_law_entry_loads_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, entry: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.yaml"
    path.write_text(yaml.safe_dump({"format": "forewarn.laws/1", "laws": {"x": entry}}))
    try:
        assert isinstance(law_book(path=path), LawBook)
    except ForewarnError as error:
        assert "fuzzed.yaml" in str(error)
