"""Versions of a rule file: a change runs in shadow mode, then is enforced or undone.

Next to `rules.yaml` is a folder `rules.yaml.versions` with every earlier version, by
number, and the change in shadow mode if there is one.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from forewarn.abstractions.files import atomic_text, read_text
from forewarn.monitors.rules.rule import (
    InvalidRules,
    Rule,
    RuleSet,
    load_rules,
    rules_from,
    save_rules,
)

Stage = Literal["shadow", "enforced", "rolled back"]

NEXT = ".next"
"""The suffix of a shadow rule's name if an enforced rule has the same name."""


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A change to a rule file, with the difference as a unified diff."""

    stage: Stage
    version: int
    before: int
    difference: tuple[str, ...]


def take_in_shadow(path: Path, proposed: Path) -> VersionChange:
    """Runs a proposed change in shadow mode; the enforced rules stay unchanged.

    New and changed rules are evaluated too, but only report what they would have done.
    """
    now, text = load_rules(path), read_text(path)
    change = load_rules(proposed)
    if change.domain != now.domain:
        raise InvalidRules(
            f"the proposed rules are for {change.domain}, but the current rules "
            f"are for {now.domain}",
            source=str(proposed),
        )
    known = {rule.name: rule for rule in now.rules}
    fresh = [rule for rule in change.rules if known.get(rule.name) != rule]
    gone = known.keys() - {rule.name for rule in change.rules}
    if not fresh and not gone:
        raise InvalidRules("the proposal changes nothing", source=str(proposed))
    if _pending(path).exists():
        raise InvalidRules(
            "a change is already in shadow mode",
            source=str(path),
            mend="accept that change with --enforce, or roll it back",
        )
    shadows = [_in_shadow(rule, rule.name in known) for rule in fresh]
    functions = {**now.functions, **change.functions}
    mixed = replace(now, rules=(*now.rules, *shadows), functions=functions)
    _keep(path, text, now.version)
    with atomic_text(_pending(path)) as out:
        out.write(change.text())
    return _write(path, text, mixed, "shadow")


def enforce(path: Path) -> VersionChange:
    """Enforces the change that is in shadow mode."""
    pending = _pending(path)
    if not pending.exists():
        raise InvalidRules(
            "no change is in shadow mode",
            source=str(path),
            mend="accept a proposal first",
        )
    now, text = load_rules(path), read_text(path)
    _keep(path, text, now.version)
    step = _write(path, text, load_rules(pending), "enforced")
    pending.unlink()
    return step


def roll_back(path: Path, version: int | None = None) -> VersionChange:
    """Restores an earlier version, by default the previous one."""
    now, text = load_rules(path), read_text(path)
    kept = sorted(n for n in versions(path) if n != now.version)
    before = [number for number in kept if number < now.version]
    wanted = version if version is not None else max(before, default=None)
    if wanted not in kept:
        have = ", ".join(map(str, kept)) or "none"
        raise InvalidRules(
            "there is no such version" if kept else "the rules have no earlier version",
            source=str(path),
            mend=f"stored versions: {have}",
        )
    _keep(path, text, now.version)
    old = read_text(_version(path, wanted))
    rules_from(old, str(_version(path, wanted)))
    with atomic_text(path) as out:
        out.write(old)
    _pending(path).unlink(missing_ok=True)
    return VersionChange("rolled back", wanted, now.version, difference(text, old))


def versions(path: Path) -> tuple[int, ...]:
    """Returns the numbers of the stored versions, the oldest first."""
    found = (p.stem for p in _folder(path).glob("*.yaml") if p.stem.isdigit())
    return tuple(sorted(map(int, found)))


def difference(before: str, after: str, around: int = 2) -> tuple[str, ...]:
    """Returns the difference between two rule files as a unified diff."""
    lines = before.splitlines(), after.splitlines()
    found = difflib.unified_diff(*lines, "before", "after", lineterm="", n=around)
    return tuple(found)


def _in_shadow(rule: Rule, twice: bool) -> Rule:
    name = rule.name + NEXT if twice else rule.name
    return replace(rule, name=name, mode="off" if rule.mode == "off" else "shadow")


def _write(path: Path, before: str, rules: RuleSet, stage: Stage) -> VersionChange:
    old = load_rules(path).version
    newest = max((*versions(path), old))
    rules = replace(rules, version=newest + 1)
    save_rules(path, rules)
    _keep(path, rules.text(), rules.version)
    return VersionChange(stage, rules.version, old, difference(before, rules.text()))


def _keep(path: Path, text: str, version: int) -> None:
    with atomic_text(_version(path, version)) as out:
        out.write(text)


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}.versions")


def _version(path: Path, version: int) -> Path:
    return _folder(path) / f"{version}.yaml"


def _pending(path: Path) -> Path:
    return _folder(path) / "pending.yaml"
