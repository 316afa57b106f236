"""A change to rules: in shadow, enforced, undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.monitors.rules.rule import InvalidRules, load_rules
from forewarn.monitors.rules.versions import (
    enforce,
    roll_back,
    take_in_shadow,
    versions,
)

HEAD = "format: forewarn.rules/1\ndomain: household\nrules:\n"
KEPT = "- {name: kept, before: throw, when: throws}\n"
CHANGED = "- {name: changed, before: drop, when: drops}\n"
TO = "- {name: changed, before: drop, when: drops and held_brittle}\n"
GONE = "- {name: gone, before: open, when: opens}\n"
NEW = "- {name: new, before: put, when: misplaces, enforce: ask}\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    rules, proposed = tmp_path / "rules.yaml", tmp_path / "proposed.yaml"
    rules.write_text(HEAD + KEPT + CHANGED + GONE)
    proposed.write_text(HEAD + KEPT + TO + NEW)
    return rules, proposed


def modes(path: Path) -> dict[str, str]:
    return {rule.name: rule.mode for rule in load_rules(path).rules}


def test_a_change_goes_through_shadow(files: tuple[Path, Path]) -> None:
    rules, proposed = files
    before = rules.read_text()
    step = take_in_shadow(rules, proposed)
    assert (step.stage, step.version, step.before) == ("shadow", 2, 1)
    assert modes(rules) == {
        "kept": "enforce",
        "changed": "enforce",
        "gone": "enforce",
        "changed.next": "shadow",
        "new": "shadow",
    }
    step = enforce(rules)
    assert (step.stage, step.version) == ("enforced", 3)
    assert any(line.startswith("-") and "gone" in line for line in step.difference)
    assert modes(rules) == {"kept": "enforce", "changed": "enforce", "new": "enforce"}
    assert load_rules(rules).rules == load_rules(proposed).rules
    assert roll_back(rules, 1).version == 1
    assert rules.read_text() == before
    assert versions(rules) == (1, 2, 3)
    assert roll_back(rules, 3).version == 3


def test_a_shadow_can_be_taken_back(files: tuple[Path, Path]) -> None:
    rules, proposed = files
    before = rules.read_text()
    take_in_shadow(rules, proposed)
    roll_back(rules)
    assert rules.read_text() == before
    with pytest.raises(InvalidRules, match="no change is in shadow"):
        enforce(rules)
    assert take_in_shadow(rules, proposed).version == 3


def test_an_invalid_proposal_or_rollback_is_rejected(files: tuple[Path, Path]) -> None:
    rules, proposed = files
    with pytest.raises(InvalidRules, match="the proposal changes nothing"):
        take_in_shadow(rules, rules)
    with pytest.raises(InvalidRules, match="no earlier version.*stored versions: none"):
        roll_back(rules)
    take_in_shadow(rules, proposed)
    with pytest.raises(InvalidRules, match="a change is already in shadow mode"):
        take_in_shadow(rules, proposed)
    with pytest.raises(InvalidRules, match="stored versions: 1"):
        roll_back(rules, 7)
    proposed.write_text(HEAD.replace("household", "code") + "- {name: a, before: any}")
    with pytest.raises(InvalidRules, match="the proposed rules are for code"):
        take_in_shadow(rules, proposed)
