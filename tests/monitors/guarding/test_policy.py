"""Policies: strict files, thresholds exact at their boundary, the paper's form."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import parse_yaml
from forewarn.monitors.evaluation.branched import EDGES
from forewarn.monitors.guarding.decision import RANK, SEVERITY
from forewarn.monitors.guarding.policy import (
    InvalidPolicy,
    Policy,
    Step,
    load_policy,
    write_policy,
)
from forewarn.monitors.risk.calibration import Calibration

SHIPPED = Path(__file__).parents[3] / "scenarios" / "trained"


def policy(**content: Any) -> Policy:
    return Policy.from_dict({"format": "forewarn.policy/1", **content}, "p.yaml")


@pytest.mark.parametrize(
    ("risk", "applies"),
    [
        (0.5, True),
        (math.nextafter(0.5, 0), False),
        (math.nextafter(0.5, 1), True),
        (0.0, False),
        (-0.0, False),
        (1.0, True),
        (1 + 1e-12, True),
        (math.nan, True),
        (math.inf, True),
        (-math.inf, True),
        (np.float32(0.5), True),
    ],
)
def test_a_threshold_counts_itself_and_what_is_no_number(
    risk: float, applies: bool
) -> None:
    assert Step("stop", 0.5).applies(risk) is applies


def test_the_papers_form_proceeds_at_equality() -> None:
    (step,) = policy(rules=[{"law": "*", "p_safe_below": {"stop": 0.75}}]).steps_for(
        "x"
    )
    assert not step.applies(0.25)
    assert step.applies(math.nextafter(0.25, 1))
    assert step.applies(math.nan)


def test_a_margin_only_ever_holds_longer() -> None:
    step = Step("slow", 0.5)
    assert step.applies(0.46, 0.05)
    assert not step.applies(0.44, 0.05)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_lower_threshold_never_removes_an_intervention(
    one: float, other: float, risk: float
) -> None:
    low, high = sorted((one, other))
    assert Step("stop", low).applies(risk) >= Step("stop", high).applies(risk)


def test_rules_of_a_law_come_before_those_of_every_law() -> None:
    chosen = policy(
        rules=[
            {"law": "*", "thresholds": {"alert": 0.2}},
            {"law": "51_5", "thresholds": {"stop": 0.6, "alert": 0.1}},
        ]
    )
    assert [s.kind for s in chosen.steps_for("51_5")] == ["alert", "stop"]
    assert [s.threshold for s in chosen.steps_for("53")] == [0.2]


def test_a_policy_reads_back_as_it_was_written(tmp_path: Path) -> None:
    chosen = policy(
        rules=[
            {"law": "*", "thresholds": {"alert": 0.2, "cut": 0.9}},
            {"law": "53", "p_safe_below": {"stop": 0.75}},
        ],
        horizon_s=5.0,
        escalation=["slow", "cut"],
        shadow=True,
    )
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(chosen.as_dict()))
    assert load_policy(path) == chosen


def test_the_default_reads_back_too() -> None:
    assert Policy.from_dict(Policy().as_dict(), "") == Policy()


@given(
    st.dictionaries(
        st.text(max_size=3),
        st.dictionaries(
            st.sampled_from(SEVERITY[1:]),
            st.tuples(st.floats(0, 1), st.booleans()),
            min_size=1,
        ),
        min_size=1,
    ),
    st.floats(0, 1),
)
def test_every_policy_reads_back_or_is_not_made(
    given_: dict[str, dict[Any, tuple[float, bool]]], risk: float
) -> None:
    rules = {
        law: tuple(
            Step(kind, at, inclusive)
            for (at, inclusive), kind in zip(
                sorted(steps.values()), sorted(steps, key=SEVERITY.index), strict=True
            )
        )
        for law, steps in given_.items()
    }
    try:
        chosen = Policy(rules=rules)
    except InvalidPolicy as error:
        # Either no risk reaches a step, or two forms at one risk contradict each other.
        assert "would never begin" in str(error) or "is not more severe" in str(error)
        return
    read = Policy.from_dict(json.loads(json.dumps(chosen.as_dict())), "p")
    assert Policy.from_dict(read.as_dict(), "p") == read
    for law, steps in rules.items():
        back = read.rules[law]
        assert [step.kind for step in back] == [step.kind for step in steps]
        for at in (risk, *(step.threshold for step in steps)):
            assert [s.applies(at) for s in back] == [s.applies(at) for s in steps]


@pytest.mark.parametrize("rules", [{}, {"*": ()}, {"*": (Step("stop", 1.5),)}])
def test_rules_that_never_act_make_no_policy(rules: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy, match="no rule|never act|never begin"):
        Policy(rules=rules)
    assert Policy(rules={"*": ()}, after_violation="stop").steps_for("a") == ()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"horizn_s": 3.0}, "did you mean horizon_s"),
        ({"horizon_s": 0.0}, "horizon_s"),
        ({"horizon_s": math.nan}, "horizon_s"),
        ({"unknown_state": "ignore"}, "unknown_state"),
        ({"rules": []}, "rules"),
        ({"rules": [{"law": "*"}]}, "either 'thresholds'"),
        ({"rules": [{"law": "*", "thresholds": {"stpo": 0.5}}]}, "did you mean stop"),
        ({"rules": [{"law": "*", "thresholds": {"proceed": 0.5}}]}, "not an interven"),
        ({"rules": [{"law": "*", "thresholds": {"stop": 1.5}}]}, "not a probability"),
        (
            {"rules": [{"law": "*", "thresholds": {"stop": 0.3, "alert": 0.6}}]},
            "alert has a higher threshold than stop, but is not more severe",
        ),
        ({"rules": [{"law": "a", "thresholds": {"stop": 0.5}}] * 2}, "two rules"),
        ({"rules": [{"law": "a", "thresholds": {}}]}, "would never act"),
        ({"rules": [{"law": "a", "p_safe_below": {}}]}, "would never act"),
        ({"rules": [{"law": "a", "p_safe_below": {"stop": 0}}]}, "would never begin"),
        ({"rules": [{"law": "a", "p_safe_below": {"stop": 1e-20}}]}, "never begin"),
        ({"rules": [{"law": "a", "p_safe_below": {"stop": -1}}]}, "not a probability"),
        ({"rules": [{"law": "a", "thresholds": {"stop": math.nan}}]}, "stop"),
        ({"rules": [{"law": "*", "thresholds": {"alrt": 0.5}}]}, "did you mean alert"),
        ({"escalation": ["stop", "slow"]}, "slow is listed after stop"),
        ({"escalation": ["slow", "slow"]}, "slow is listed after slow"),
        ({"fallback": "proceed"}, "fallback"),
        ({"deadline_s": 0.0}, "above zero"),
        ({"deadline_s": {"gate": 0.1, "policy": -0.1}}, "above zero"),
        ({"deadline_s": {"gat": 0.1}}, "deadline_s"),
        ({"format": "forewarn.policy/2"}, "format"),
    ],
)
def test_bad_policies_are_refused_in_a_line(content: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        policy(**content)
    assert said in str(refused.value)
    assert "p.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)


LIMITS: dict[str, tuple[list[float], list[float]]] = {
    "horizon_s": ([1e-9, 3600], [-1, 0, 3600.5]),
    "delta": ([1e-9, 0.999], [0, 1]),
    "hysteresis": ([0, 0.999], [-0.001, 1]),
    "hold_s": ([0, 1e6], [-0.001]),
    "max_reflections": ([0, 100], [-1, 101]),
    "max_age_s": ([1e-9, 1e6], [0]),
    "frozen_after_s": ([1e-9, 1e6], [0]),
    "ack_s": ([1e-9, 1e6], [0]),
    "lease_s": ([1e-9, 1e6], [0]),
    "slow_cap_kmh": ([0, 300], [-0.001]),
    "deadline_s": ([1e-9, 1e6], [0]),
}


@pytest.mark.parametrize("key", LIMITS)
def test_numbers_are_held_to_their_limits(key: str) -> None:
    inside, outside = LIMITS[key]
    for value in inside:
        held = getattr(policy(**{key: value}), key)
        assert set(held.values()) == {value} if key == "deadline_s" else held == value
    for value in outside:
        with pytest.raises(InvalidInput, match=key):
            policy(**{key: value})


@pytest.mark.parametrize(
    ("form", "value"), [("thresholds", 0), ("thresholds", 1), ("p_safe_below", 1)]
)
def test_certainty_is_a_threshold_too(form: str, value: float) -> None:
    (step,) = policy(rules=[{"law": "*", form: {"stop": value}}]).steps_for("a law")
    assert step.threshold == (value if form == "thresholds" else 1 - value)


@given(st.floats(0, 1), st.booleans(), st.floats(0, 1))
def test_a_step_applies_above_its_threshold(
    threshold: float, inclusive: bool, risk: float
) -> None:
    step = Step("alert", threshold, inclusive)
    assert step.applies(risk) is (risk > threshold or inclusive and risk == threshold)
    assert step.applies(threshold) is inclusive


def test_the_documented_policy_is_the_default() -> None:
    page = (Path(__file__).parents[3] / "docs" / "guard.md").read_text()
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    (text,) = [each for each in blocks if "forewarn.policy/1" in each]
    content = parse_yaml(text, "docs/guard.md")
    assert content == Policy().as_dict()
    assert Policy.from_dict(content, "docs/guard.md") == Policy()
    for key in content.keys() - {"format", "name"}:
        assert f"| `{key}` |" in page, "a key that the page does not explain"


def test_policy_as_dict_is_a_copy() -> None:
    chosen = Policy()
    chosen.as_dict()["deadline_s"]["gate"] = 9.0
    assert chosen == Policy()


def test_one_deadline_stands_for_every_stage_and_a_stage_may_have_its_own() -> None:
    assert set(policy(deadline_s=0.1).deadline_s.values()) == {0.1}
    own = policy(deadline_s={"gate": 0.1}).deadline_s
    assert own == {**Policy().deadline_s, "gate": 0.1}


@pytest.mark.parametrize("kind", SEVERITY)
def test_escalation_only_gets_severer_and_ends_in_cut(kind: Any) -> None:
    after = Policy().after(kind)
    assert RANK[after] > RANK[kind] or after == "cut"


def test_a_policy_without_a_rule_for_all_names_its_laws() -> None:
    rules: list[dict[str, Any]] = [
        {"law": "51_5", "thresholds": {"stop": 0.5}},
        {"law": "53", "thresholds": {"alert": 0.5}},
    ]
    content = {"format": "forewarn.policy/1", "rules": rules}
    assert Policy.from_dict(content, "policy").laws == ("51_5", "53")
    rules.append({"law": "*", "thresholds": {"stop": 0.9}})
    assert Policy.from_dict(content, "policy").laws == ()


@pytest.mark.parametrize("inclusive", [True, False])
def test_interventions_at_a_low_threshold_are_released(inclusive: bool) -> None:
    low = Step("stop", 0.04, inclusive)
    assert not low.applies(0.01, 0.05)
    assert low.applies(0.03, 0.05)
    assert low.applies(0.05)
    high = Step("stop", 0.5, inclusive)
    assert high.applies(0.46, 0.05) and not high.applies(0.44, 0.05)
    assert Step("alert", 0.0).applies(0.0, 0.05), "from zero on is always"


def test_a_calibration_reads_back_and_has_to_rise() -> None:
    curve = Calibration(((0.25, 0.125), (0.5, 0.75)))
    found = policy(calibration={"no_collision": [[0.25, 0.125], [0.5, 0.75]]})
    assert found == Policy(calibration={"no_collision": curve})
    assert Policy.from_dict(found.as_dict(), "p.yaml") == found
    with pytest.raises(InvalidInput, match="does not increase") as error:
        policy(calibration={"no_collision": [[0.5, 0.5], [0.25, 0.75]]})
    assert "calibration, law no_collision" in str(error.value)


def test_laws_without_a_rule_are_reported_and_a_policy_without_any_is_rejected() -> (
    None
):
    alert = (Step("alert", 0.3),)
    policy = Policy(name="mine", rules={"a": alert, "b": alert})
    assert policy.without_rule(["a", "b"]) == ()
    assert policy.without_rule(["c", "a", "d"]) == ("c", "d")
    assert policy.without_rule([]) == ()
    assert Policy(rules={"*": alert, "a": alert}).without_rule(["c"]) == ()
    with pytest.raises(InvalidPolicy) as refused:
        policy.without_rule(["c", "d"])
    assert str(refused.value) == (
        "the policy mine has rules only for a, b, but the watched laws are c, d (add"
        " a rule for one of them, or for any law ('*'))"
    )


def test_a_written_policy_reads_as_a_person_would_write_it(tmp_path: Path) -> None:
    """Keys in the order of what is written, names as they are spelled."""
    chosen = policy(
        rules=[
            {"law": "Rückfahrt", "thresholds": {"stop": 0.8}},
            {"law": "Anfahrt", "thresholds": {"ask": 0.5}},
        ]
    )
    path = tmp_path / "policy.yaml"
    write_policy(path, chosen)
    assert load_policy(path) == chosen
    text = path.read_text("utf-8")
    assert 0 < text.index("Rückfahrt") < text.index("Anfahrt")
    assert list(yaml.safe_load(text)) == list(chosen.as_dict())


def test_half_of_a_low_threshold_is_its_margin() -> None:
    step = Step("stop", 0.3)
    assert step.applies(0.15, margin=0.2) and not step.applies(0.149, margin=0.2)


@pytest.mark.parametrize("name", ["s4.policy.yaml", "s4.stop.policy.yaml"])
def test_a_shipped_policy_keeps_its_guarantees_when_it_is_written(
    name: str, tmp_path: Path
) -> None:
    policy = load_policy(SHIPPED / name)
    assert policy.kept if "stop" in name else policy.promises and policy.ordinary
    write_policy(tmp_path / name, policy)
    assert load_policy(tmp_path / name) == policy


def test_a_law_has_at_most_one_band_for_each_step_of_risk() -> None:
    content = parse_yaml((SHIPPED / "s4.stop.policy.yaml").read_text(), "s4")
    bands = next(iter(content["if_acted"].values()))
    full = [(bands * len(EDGES))[i] for i in range(len(EDGES) - 1)]
    law = next(iter(content["if_acted"]))
    Policy.from_dict({**content, "if_acted": {law: full}}, "s4")
    with pytest.raises(InvalidInput, match="if_acted"):
        Policy.from_dict({**content, "if_acted": {law: [*full, full[0]]}}, "s4")


def test_digest_is_the_same_after_a_policy_was_written_and_read(tmp_path: Path) -> None:
    policy = Policy(horizon_s=2, hold_s=10)
    write_policy(tmp_path / "p.yaml", policy)
    assert load_policy(tmp_path / "p.yaml").digest == policy.digest
