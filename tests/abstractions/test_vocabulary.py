"""Vocabularies: what they hold, what they refuse, how aliases convert."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidExpression,
    InvalidVocabulary,
    SignalFault,
)
from forewarn.abstractions.vocabularies.vocabulary import (
    Vocabulary,
    load_vocabulary,
    vocabulary_from,
)

DRIVING = load_vocabulary("driving")
HOUSEHOLD = load_vocabulary("household")

# The names that ProbGuard's and LawBreaker's laws are written in.
FORTY = """gear engineOn direction manualIntervention speed acc brake isLaneChanging
isOverTaking isTurningAround currentLanenumber currentLanedirection
speedLimitlowerLimit speedLimitupperLimit honkingAllowed crosswalkAhead junctionAhead
stopSignAhead signalAhead stoplineAhead streetLightOn specialLocationAheadlocation
specialLocationAheadtype trafficLightAheadcolor trafficLightAheadblink PriorityNPCAhead
PriorityPedsAhead isTrafficJam NPCAheadAhead NPCAheadspeed NearestNPCAhead
NearestNPCspeed NPCOppositeAhead NPCOppositespeed rain snow fog
trafficLightAheadArrowDirectioncolor trafficLightAheadArrowDirectionblink
visibility""".split()
# LawBreaker alone has these.
MORE = """turnSignal hornOn highBeamOn lowBeamOn fogLightOn warningflashOn Time
collision reach_destination""".split()

SIGNALS = """speed acceleration brake throttle gear engine_on manual_control turn_signal
direction lane_changing overtaking turning_around lane_count lane_direction
speed_limit_min speed_limit junction_distance stop_line_distance crosswalk_distance
stop_sign_distance in_junction past_stop_line signal_ahead traffic_light
traffic_light_blinking traffic_light_age arrow_light arrow_light_blinking
lead_distance lead_speed nearest_distance nearest_speed
object_1 object_1_kind object_1_distance object_1_bearing object_1_closing_speed
object_2 object_2_kind object_2_distance object_2_bearing object_2_closing_speed
object_3 object_3_kind object_3_distance object_3_bearing object_3_closing_speed
oncoming_distance oncoming_speed pedestrian_distance priority_vehicle
priority_pedestrian traffic_jam
honking_allowed horn_on high_beam_on low_beam_on fog_light_on warning_flash_on
street_light_on rain snow fog visibility time_of_day special_location
special_location_distance collision off_road destination_reached
required_deceleration time_to_stop_line time_to_collision deceleration_to_avoid_crash
post_encroachment_time edge_margin time_to_edge arrival_gap pedestrian_arrival_gap
rss_longitudinal_margin rss_lateral_margin braking priority_gap priority_arrival
side_margin line_deceleration line_shortfall shortfall unanswered_age turn_signal_age
standing_age giving_way_age jam_age headway lead_acceleration localization_age
chassis_age obstacles_age lights_age planning_age prediction_age snapshot_age""".split()


def test_driving_has_exactly_its_signals() -> None:
    assert list(DRIVING.signals) == SIGNALS


def test_household_has_exactly_its_signals_and_predicates() -> None:
    assert list(HOUSEHOLD.signals) == [
        "holding",
        "step_count",
        "last_action",
        "last_action_object",
        "last_action_succeeded",
        *("steps_left", "next_action"),
        *("left_on", "left_on_age", "left_open", "left_open_age"),
        "agent_distance_moved",
        "metadata_age",
    ]
    arities = {name: p.arities for name, p in HOUSEHOLD.predicates.items()}
    unary = (
        "toggled open broken filled dirty cooked sliced used_up held hot cold visible"
    )
    assert arities == {
        **{f"is_{word}": (1,) for word in unary.split()},
        **{f"is_{word}": (2,) for word in ("inside", "on", "filled_with")},
        "is_near": (1, 2),
    }


def test_units_and_ranges_are_the_physical_ones() -> None:
    speed = DRIVING.signal("speed")
    assert (speed.unit, speed.low, speed.high) == ("km/h", 0, 300)
    for name in SIGNALS:
        signal = DRIVING.signal(name)
        if name.endswith("_distance"):
            assert (signal.unit, signal.low, signal.high) == ("m", 0, 1000), name
            assert signal.may_be_none and signal.none_means, name
        if name.endswith("_age"):
            assert (signal.unit, signal.low) == ("s", 0), name


@pytest.mark.parametrize("name", [*FORTY, *MORE])
def test_every_lawbreaker_name_is_known(name: str) -> None:
    assert name in DRIVING.aliases or name in DRIVING.signals


# One value for every alias: name, what it is beside, foreign value, ours.
CONVERSIONS: list[tuple[str, dict[str, Any], Any]] = [
    ("acc", {"acc": 2.5}, ("acceleration", 2.5)),
    ("gear", {"gear": 2}, ("gear", "reverse")),
    ("engineOn", {"engineOn": 1}, ("engine_on", True)),
    ("manualIntervention", {"manualIntervention": 0}, ("manual_control", False)),
    ("turnSignal", {"turnSignal": 3}, ("turn_signal", "hazard")),
    ("direction", {"direction": 2}, ("direction", "right")),
    ("isLaneChanging", {"isLaneChanging": 1}, ("lane_changing", True)),
    ("isOverTaking", {"isOverTaking": 1}, ("overtaking", True)),
    ("isTurningAround", {"isTurningAround": 0}, ("turning_around", False)),
    ("currentLanenumber", {"currentLanenumber": 2}, ("lane_count", 2.0)),
    (
        "currentLanedirection",
        {"currentLanedirection": 7},
        ("lane_direction", "left_right"),
    ),
    ("speedLimitlowerLimit", {"speedLimitlowerLimit": 0}, ("speed_limit_min", None)),
    ("speedLimitupperLimit", {"speedLimitupperLimit": 1000}, ("speed_limit", None)),
    ("junctionAhead", {"junctionAhead": 200}, ("junction_distance", None)),
    ("stoplineAhead", {"stoplineAhead": 1.5}, ("stop_line_distance", 1.5)),
    ("crosswalkAhead", {"crosswalkAhead": 200.0}, ("crosswalk_distance", None)),
    ("stopSignAhead", {"stopSignAhead": 200}, ("stop_sign_distance", None)),
    ("signalAhead", {"signalAhead": 1}, ("signal_ahead", True)),
    (
        "trafficLightAheadcolor",
        {"trafficLightAheadcolor": 3},
        ("traffic_light", "green"),
    ),
    (
        "trafficLightAheadcolor",
        {"trafficLightAheadcolor": 3, "signalAhead": 0},
        ("traffic_light", None),
    ),
    (
        "trafficLightAheadcolor",
        {"trafficLightAheadcolor": 1, "signalAhead": 1},
        ("traffic_light", "red"),
    ),
    (
        "trafficLightAheadblink",
        {"trafficLightAheadblink": 1},
        ("traffic_light_blinking", True),
    ),
    (
        "trafficLightAheadArrowDirectioncolor",
        {"trafficLightAheadArrowDirectioncolor": 2},
        ("arrow_light", "yellow"),
    ),
    (
        "trafficLightAheadArrowDirectionblink",
        {"trafficLightAheadArrowDirectionblink": 0, "signalAhead": 0},
        ("arrow_light_blinking", None),
    ),
    ("NPCAheadAhead", {"NPCAheadAhead": 1000}, ("lead_distance", None)),
    ("NPCAheadspeed", {"NPCAheadspeed": 10}, ("lead_speed", 36.0)),
    (
        "NPCAheadspeed",
        {"NPCAheadspeed": 0, "NPCAheadAhead": 1000},
        ("lead_speed", None),
    ),
    ("NPCAheadspeed", {"NPCAheadspeed": 0, "NPCAheadAhead": 4}, ("lead_speed", 0.0)),
    ("NearestNPCAhead", {"NearestNPCAhead": 12.0}, ("nearest_distance", 12.0)),
    (
        "NearestNPCspeed",
        {"NearestNPCspeed": 0, "NearestNPCAhead": 1000},
        ("nearest_speed", None),
    ),
    ("NPCOppositeAhead", {"NPCOppositeAhead": 1000}, ("oncoming_distance", None)),
    ("NPCOppositespeed", {"NPCOppositespeed": 5}, ("oncoming_speed", 18.0)),
    ("PriorityNPCAhead", {"PriorityNPCAhead": 1}, ("priority_vehicle", True)),
    ("PriorityPedsAhead", {"PriorityPedsAhead": 0}, ("priority_pedestrian", False)),
    ("isTrafficJam", {"isTrafficJam": 1}, ("traffic_jam", True)),
    ("honkingAllowed", {"honkingAllowed": 1}, ("honking_allowed", True)),
    ("hornOn", {"hornOn": 0}, ("horn_on", False)),
    ("highBeamOn", {"highBeamOn": 1}, ("high_beam_on", True)),
    ("lowBeamOn", {"lowBeamOn": 1}, ("low_beam_on", True)),
    ("fogLightOn", {"fogLightOn": 0}, ("fog_light_on", False)),
    ("warningflashOn", {"warningflashOn": 0}, ("warning_flash_on", False)),
    ("streetLightOn", {"streetLightOn": 0}, ("street_light_on", False)),
    ("Time", {"Time": 20.5}, ("time_of_day", 20.5)),
    (
        "specialLocationAheadtype",
        {"specialLocationAheadtype": 0},
        ("special_location", None),
    ),
    (
        "specialLocationAheadlocation",
        {"specialLocationAheadlocation": 0, "specialLocationAheadtype": 0},
        ("special_location_distance", None),
    ),
    ("reach_destination", {"reach_destination": 1}, ("destination_reached", True)),
]  # fmt: skip


@pytest.mark.parametrize(("alias", "row", "ours"), CONVERSIONS)
def test_an_alias_converts(alias: str, row: dict[str, Any], ours: Any) -> None:
    signal, value = ours
    found = DRIVING.translate(row)
    assert found[signal] == value and type(found[signal]) is type(value)


def test_every_alias_has_a_conversion_above() -> None:
    assert set(DRIVING.aliases) == {alias for alias, _, _ in CONVERSIONS}


def test_a_name_shared_with_lawbreaker_takes_our_values_too() -> None:
    assert DRIVING.translate({"gear": "drive"}) == {"gear": "drive"}


def test_two_names_of_one_signal_must_agree() -> None:
    row = {"lead_speed": 36.0, "NPCAheadspeed": 10}
    assert DRIVING.translate(row) == {"lead_speed": 36.0}
    with pytest.raises(SignalFault, match="and another column have different values"):
        DRIVING.translate(row | {"NPCAheadspeed": 9})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("speed", math.nan, "not finite"),
        ("speed", -math.inf, "not finite"),
        ("speed", 10**400, "not finite"),
        ("speed", -0.1, "below its range"),
        ("speed", 301, "above its range"),
        ("speed", "fast", "must be a number"),
        ("speed", True, "must be a number"),
        ("speed", None, "cannot be none"),
        ("collision", 1, "must be true or false"),
        ("gear", "drve", "did you mean drive"),
        ("gear", 1, "one of neutral, drive, reverse, parking"),
        ("speeed", 1.0, "did you mean speed"),
    ],
)
def test_a_wrong_value_is_a_fault(key: str, value: object, said: str) -> None:
    with pytest.raises(SignalFault, match=said):
        DRIVING.check_value(key, value)


def test_a_code_that_the_alias_lacks_is_a_fault() -> None:
    with pytest.raises(SignalFault, match="no code 9"):
        DRIVING.translate({"gear": 9})


def test_values_at_the_ends_of_a_range_are_readings() -> None:
    assert DRIVING.check_value("speed", 0) == 0.0
    assert DRIVING.check_value("speed", 300) == 300.0
    assert DRIVING.check_value("lead_distance", None) is None


def test_object_predicates_are_known_by_their_canonical_text() -> None:
    assert HOUSEHOLD.canonical("is_inside( Fork,Microwave#2 )") == (
        "is_inside(Fork, Microwave#2)"
    )
    assert HOUSEHOLD.check_value("is_near(any)", True) is True
    assert HOUSEHOLD.check_value("is_near(Mug, all)", False) is False
    for key in ("is_inside(Fork)", "is_insid(Fork, Mug)", "is_open(Mug!)", "is_open("):
        assert not HOUSEHOLD.knows(key)
        with pytest.raises(SignalFault):
            HOUSEHOLD.check_value(key, True)


def test_an_open_enum_takes_any_name() -> None:
    assert HOUSEHOLD.check_value("holding", "Mug#2") == "Mug#2"
    assert HOUSEHOLD.check_value("holding", None) is None
    with pytest.raises(SignalFault):
        HOUSEHOLD.check_value("holding", "a mug")


def test_an_unknown_signal_names_its_near_miss() -> None:
    with pytest.raises(InvalidExpression, match="did you mean lead_distance"):
        DRIVING.signal("lead_distanc")


LIFT = """
format: forewarn.vocabulary/1
name: lift
signals:
  height: {type: number, unit: m, range: [0, 40]}
  load: {type: number, unit: kg, range: [0, null]}
  door: {type: enum, values: [open, closed, moving]}
  person_below: {type: bool, none: the scanner is off}
inputs: {scanner: [scanner]}
predicates:
  holds: {arities: [1], doc: that crate is on the lift}
aliases:
  HGT_MM: {signal: height, unit: mm, scale: 0.001}
  DOOR: {signal: door, codes: {1: open, 0: closed}, none_codes: []}
"""


def test_a_users_own_vocabulary_loads_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "lift.yaml"
    path.write_text(LIFT)
    lift = load_vocabulary(path)
    assert load_vocabulary(str(path)) == lift
    assert lift.name == "lift" and "scanner_age" in lift.signals
    found = lift.translate({"HGT_MM": 1500, "DOOR": 1, "holds(Crate#7)": True})
    assert found == {"height": 1.5, "door": "open", "holds(Crate#7)": True}
    with pytest.raises(SignalFault, match="below"):
        lift.translate({"load": -1})


def _lift(old: str = "", new: str = "") -> Any:
    from forewarn.abstractions.files import parse_yaml

    assert old in LIFT
    return parse_yaml(LIFT.replace(old, new, 1), "lift.yaml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("range: [0, 40]", "rnge: [0, 40]", "did you mean range"),
        ("signals:", "sgnals:", "did you mean signals"),
        ("vocabulary/1", "vocabulary/9", "format"),
        ("range: [0, 40]", "range: [40, 0]", "lower bound of 'range' is above"),
        ("range: [0, 40]", "range: [40]", "signals.height.range"),
        ("range: [0, null]", "range: [.nan, 1]", "signals.load.range"),
        ("type: enum,", "type: enm,", "signals.door.type"),
        ("[open, closed, moving]", "[]", "omit it to allow any name"),
        ("[open, closed, moving]", "[open, open]", "twice"),
        ("[open, closed, moving]", "[open, none, moving]", "none"),
        ("type: bool", "type: bool, unit: m", "cannot have a unit"),
        ("type: bool", "type: bool, danger: falls", "cannot have a unit"),
        ("type: bool", "type: number, danger: grows", "danger"),
        ("type: bool", "type: bool, values: [a]", "cannot have 'values'"),
        ("height: {", "and: {", "cannot be the name"),
        ("height: {", "he-ight: {", "cannot be the name"),
        ("signal: height", "signal: heigth", "did you mean height"),
        ("1: open", "1: opn", "did you mean open"),
        ("codes: {1: open, 0: closed}", "doc: x", "needs codes"),
        ("none_codes: []", "none_codes: [9]", "cannot be none"),
        ("scale: 0.001", "scale: 0", "scale"),
        ("arities: [1]", "arities: [3]", "arities"),
        ("holds:", "height:", "both a signal and an object predicate"),
    ],
)
def test_a_wrong_vocabulary_says_where(old: str, new: str, said: str) -> None:
    with pytest.raises(InvalidVocabulary, match=said) as caught:
        vocabulary_from(_lift(old, new), "lift.yaml")
    assert str(caught.value).startswith("lift.yaml: ")


def test_a_vocabulary_that_does_not_exist_names_its_near_miss() -> None:
    with pytest.raises(InvalidVocabulary, match="did you mean driving"):
        load_vocabulary("drivin")


def test_none_codes_need_a_signal_that_may_be_none() -> None:
    data = _lift("  load:", "  door_seen: {type: bool, none: no sensor}\n  load:")
    data["aliases"]["SEEN"] = {"signal": "door_seen", "none_codes": [9]}
    assert vocabulary_from(data, "x").translate({"SEEN": 9}) == {"door_seen": None}
    data["aliases"]["SEEN"] = {"signal": "door_seen", "none_when": {"DOR": [1]}}
    with pytest.raises(InvalidVocabulary, match="did you mean DOOR"):
        vocabulary_from(data, "x")


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(junk)
def test_junk_is_refused_as_a_vocabulary(data: object) -> None:
    with pytest.raises(ForewarnError):
        vocabulary_from(data, "junk.yaml")


@given(
    st.sampled_from(["signals", "inputs", "predicates", "aliases", "name"]),
    st.sampled_from(["height", "door", "HGT_MM", "holds", "scanner"]),
    junk,
)
def test_a_vocabulary_with_junk_inside_loads_or_is_refused(
    section: str, key: str, data: object
) -> None:
    lift = _lift()
    if isinstance(lift[section], dict):
        lift[section] = {**lift[section], key: data}
    else:
        lift[section] = data
    try:
        assert isinstance(vocabulary_from(lift, "lift.yaml"), Vocabulary)
    except ForewarnError:
        pass


@given(st.dictionaries(st.sampled_from([*DRIVING.names(), "x"]), junk, max_size=4))
def test_any_row_is_translated_or_a_fault(row: dict[str, object]) -> None:
    try:
        found = DRIVING.translate(row)
    except SignalFault:
        return
    for key, value in found.items():
        assert DRIVING.check_value(key, value) == value
