"""What every toolbox holds: names compared, access checked, rules checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.abstractions.frame import is_number
from forewarn.monitors.programs.toolbox import Function, function
from forewarn.monitors.programs.values import (
    ProgramFault,
    Value,
    kind,
    mapping_of,
    names_of,
    plain,
)


def check_access(allowed: Value, needed: Value) -> Value:
    """Whether something is needed that is not allowed, and what: two values, true or
    false and a mapping. Both are given as databases with their columns."""
    may = {plain(k): v for k, v in mapping_of(allowed, "what is allowed").items()}
    known: dict[str, set[str]] = {}
    missing: dict[str, Value] = {}
    for database, columns in mapping_of(needed, "what is needed").items():
        wanted = names_of(columns, f"what is needed of {database}")
        name = plain(database)
        if name not in may:
            missing[database] = tuple(wanted)
            continue
        if name not in known:
            granted = names_of(may[name], f"what is allowed of {database}")
            known[name] = set(map(plain, granted))
        if lacking := tuple(c for c in wanted if plain(c) not in known[name]):
            missing[database] = lacking
    return bool(missing), missing


def allowed_to(table: Value, role: Value) -> Value:
    """What a table of roles allows to a role: nothing, if it does not know the role."""
    rows = mapping_of(table, "the table")
    if not isinstance(role, str):
        return {}
    wanted = plain(role)
    return next((row for name, row in rows.items() if plain(name) == wanted), {})


def same(one: Value, other: Value) -> Value:
    """Whether two names are the same: upper case, spaces and underscores do not
    matter."""
    if isinstance(one, str) and isinstance(other, str):
        return plain(one) == plain(other)
    return False


def check_rules(rules: Value, user: Value) -> Value:
    """Whether a user breaks rules, and which: two values, true or false and a list of
    names. A rule is a mapping with `info` (what of the user), `operator` (==, !=, <,
    <=, >, >=) and `value`: it is kept if that is so, and broken if it is not known."""
    about = {plain(k): v for k, v in mapping_of(user, "the user").items()}
    broken = tuple(
        name
        for name, rule in mapping_of(rules, "the rules").items()
        if not _kept(name, mapping_of(rule, f"the rule {name}"), about)
    )
    return bool(broken), broken


def count(items: Value) -> Value:
    """How many there are in a list or a mapping."""
    if isinstance(items, Mapping | list | tuple):
        return len(items)
    raise ProgramFault(f"{kind(items)} cannot be counted")


def _kept(name: str, rule: Mapping[str, Any], user: Mapping[str, Any]) -> bool:
    info, operator, value = (rule.get(k) for k in ("info", "operator", "value"))
    if not isinstance(info, str):
        raise ProgramFault(f"the rule {name} does not say what it is about")
    known = user.get(plain(info))
    if known is None:
        return False
    if operator in ("==", "!="):
        equal = isinstance(known, bool) is isinstance(value, bool) and known == value
        if isinstance(known, str) and isinstance(value, str):
            equal = plain(known) == plain(value)
        return bool(equal) is (operator == "==")
    numbers = [each for each in (known, value) if is_number(each)]
    if operator not in ("<", "<=", ">", ">=") or not is_number(value):
        raise ProgramFault(f"the rule {name} compares in no known way")
    if len(numbers) < 2:
        return False
    if operator in ("<", "<="):
        return bool(known < value or (operator == "<=" and known == value))
    return bool(known > value or (operator == ">=" and known == value))


STANDARD: tuple[Function, ...] = tuple(
    function(call) for call in (check_access, allowed_to, same, check_rules, count)
)
