"""Rules that cannot do what their author meant."""

from __future__ import annotations

import pytest

from forewarn.monitors.rules.libraries import library
from forewarn.monitors.rules.linting import lint
from forewarn.monitors.rules.predicates import DOMAINS, Domain, Library
from forewarn.monitors.rules.rule import expert_rules, rules_from

LIBRARIES: dict[Domain, Library] = {domain: library(domain) for domain in DOMAINS}


def found(*rules: str, match: str = "all") -> list[tuple[str, str, str]]:
    head = f"format: forewarn.rules/1\ndomain: household\nmatch: {match}\nrules:\n"
    text = head + "".join(f"- {{{rule}}}\n" for rule in rules)
    findings = lint(rules_from(text, "r.yaml"), LIBRARIES)
    return [(each.rule, each.problem, each.other) for each in findings]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["name: a, before: put, when: puts and not puts"], [("a", "never", "")]),
        (["name: a, before: put, when: puts, unless: puts"], [("a", "never", "")]),
        (["name: a, before: any, when: puts or not puts"], [("a", "always", "")]),
        (["name: a, before: any"], [("a", "always", "")]),
        (["name: a, before: put"], []),
        (["name: a, before: [Fill Liquid, put]"], []),
        (["name: a, before: [put, putt]"], [("a", "never", "")]),
        (["name: a, before: put, when: putz"], [("a", "broken", "")]),
        (["name: a, before: put, when: target == Microwav"], [("a", "never", "")]),
        (["name: a, before: any, when: action == turn_onn"], [("a", "never", "")]),
        (["name: a, before: put, when: held != Forkk and puts"], [("a", "never", "")]),
        (["name: a, before: put, when: 'target in [Microwave_2, counter]'"], []),
        (["name: a, before: put, when: 'target in [Ladder, Cake, Stove]'"], []),
        (["name: a, before: put, enforce: {slow: {cap: 20}}"], [("a", "broken", "")]),
        (["name: a, before: put, enforce: {slow: {cap_kmh: 20}}"], []),
        (["name: a, before: put, when: x, needs: [x]"], [("a", "needs", "")]),
        (
            ["name: a, before: put, when: puts", "name: b, before: put, when: puts"],
            [("b", "repeated", "a")],
        ),
        (
            ["name: a, before: any, when: drops",
             "name: b, before: put, when: drops and opens, enforce: ask"],
            [("b", "shadowed", "a")],
        ),
        (
            ["name: a, before: any, when: drops and opens, enforce: ask",
             "name: b, before: put, when: drops"],
            [],
        ),
        (
            ["name: a, before: put, when: drops, enforce: ask",
             "name: b, before: put, when: drops and opens"],
            [],
        ),
        (
            ["name: a, before: put, when: drops, mode: shadow",
             "name: b, before: put, when: drops and opens"],
            [],
        ),
        (
            ["name: a, before: any, when: once drops",
             "name: b, before: any, when: drops"],
            [],
        ),
    ],
)  # fmt: skip
def test_findings(rules: list[str], expected: list[tuple[str, str, str]]) -> None:
    assert found(*rules) == expected


def test_in_first_match_a_milder_rule_shadows_a_severer_one() -> None:
    mild = "name: a, before: any, when: drops, enforce: alert"
    severe = "name: b, before: any, when: drops and opens, enforce: stop"
    assert found(mild, severe) == []
    assert found(mild, severe, match="first") == [("b", "shadowed", "a")]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_rules_that_ship_are_clean(domain: Domain) -> None:
    rules = expert_rules(domain)
    assert rules.domain == domain
    assert lint(rules, LIBRARIES) == []
