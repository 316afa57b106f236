"""Compiles guard requests (tables and sentences) to programs, without a model."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from forewarn.monitors.programs.asking import activities, singular
from forewarn.monitors.programs.functions import is_known
from forewarn.monitors.programs.request import (
    TABLES,
    InvalidRequest,
    Request,
    Rule,
    Table,
)
from forewarn.monitors.programs.tools import SENTENCES, NotATool, Tool, tests_of
from forewarn.monitors.programs.values import plain

_NOT = (
    r"(?:may not|must not|can ?not|can't|should not|shall not|never|do not|does not|"
    r"don't|(?:is|are) (?:not|never) allowed to)"
)
_WEATHER = r"(?:in|during|when there is) (?P<sky>snow|rain|fog)"
_CAP = (
    r"(?:drive |go )?(?:at most|no more than|up to) (?P<cap>\d{1,3}(?:\.\d+)?) ?km/?h"
)

_CAPPED = (
    re.compile(rf"{_WEATHER},? {_CAP}"),
    re.compile(rf"{_CAP} {_WEATHER}"),
)
_OUT = re.compile(
    r"(?P<who>.+?) (?:must |have to |has to |should )?(?:stay|stays|keep|keeps) out of"
    r" (?P<room>.+)"
)
_NONE_IN = re.compile(r"no (?P<who>[\w' -]+) in (?P<room>.+)")
_ONLY = re.compile(r"only (?P<who>.+?) (?:may|can) (?P<what>.+)")
_ASKED = re.compile(
    r"(?:(?P<who>.+?) (?:must|have to|has to|should) )?(?P<says>ask|think again) before"
    r" (?P<what>.+)"
)
_FORBIDDEN = re.compile(rf"(?:(?P<who>.+?) )??{_NOT} (?P<what>.+)")

_AGE = re.compile(
    r"(?P<rest>.*?) ?(?:aged )?(?P<side>under|below|younger than|over|older than)"
    r" (?:the age of )?(?P<age>\d{1,3})"
)
_LACK = re.compile(
    r"(?P<rest>.*?) ?\b(?:without (?:an? )?|(?:who|that) (?:is|are) not (?:an? )?|"
    r"(?:who|that) (?:has|have) no )(?P<lack>[\w' -]+)"
)
_UN = re.compile(r"(?:an? )?un(?P<lack>vaccinated|registered|licensed) (?P<rest>\w+)")
_WITH = re.compile(
    r"(?P<rest>.*?) ?(?:with (?:an? )?|(?:who|that) (?:is|are) (?:an? )?)(?P<has>.+)"
)
_ARTICLE = re.compile(r"^(?:an?|the|any|every|all|some|his|her|their) ")
_NEVER_IN_NAMES = frozenset(SENTENCES["never_in_names"].split())
_VERBS: Mapping[str, str] = SENTENCES["verbs"]

_ABOUT = re.compile(r'About\(action, "([^"]+)"\)')
_ENTER = re.compile(r"(?:enter|go into|go to|come into|be in) (?P<room>.+)")
_IN_ROOM = re.compile(r"(?P<what>.+?) in (?P<room>the [\w ]+)")
_PUT = re.compile(
    r"(?:put|place) (?P<what>.+?) (?:in|into|inside|on|onto|in to) (?P<place>.+)"
)


class _Rule(NamedTuple):
    """A parsed sentence: its tests, all of which must be true, and its verdict."""

    tests: Sequence[str]
    says: str
    cap: str = ""


def sentences_program(
    rules: Sequence[Rule],
    source: str,
    specification: str = "",
    tools: Sequence[Tool] = (),
) -> str:
    """Compiles rules in sentences to a program.

    A sentence is rejected if it has more content than its form allows, or if it names a
    thing that appears neither in the household vocabulary nor in the specification.

    Raises:
        InvalidRequest: A sentence has no known form; the message states its line.
    """
    said = _plain(specification)
    forms = SENTENCES["tool_forms" if tools else "forms"]
    parts: list[str] = []
    for rule in rules:
        try:
            understood = _understood(_plain(rule.text), tools)
            for thing in _things(understood):
                if not is_known(thing) and thing not in said:
                    raise _Unknown(
                        f"{thing!r:.40} is neither a known object nor named in "
                        "the specification"
                    )
        except (_Unknown, NotATool) as unknown:
            raise InvalidRequest(
                f"{unknown}: {rule.text!r:.120}",
                source=source,
                place=f"line {rule.line}",
                mend=f"write it like {' / '.join(forms)}, compile it with --model, or "
                "add --tools for an agent's tools",
            ) from None
        reason = json.dumps(rule.text.rstrip(" ."), ensure_ascii=False)
        cap = f", {understood.cap}" if understood.cap else ""
        tests = " and ".join(understood.tests)
        parts.append(f"if {tests}:\n    {understood.says}({reason}{cap})\n")
    return "\n".join(parts)


def _things(rule: _Rule) -> list[str]:
    return [thing for test in rule.tests for thing in _ABOUT.findall(test)]


class _Unknown(Exception):
    """A sentence or a part of a sentence has no known form."""


def _plain(text: str) -> str:
    return " ".join(text.casefold().replace("’", "'").rstrip(" .").split())


def _understood(text: str, tools: Sequence[Tool] = ()) -> _Rule:
    if not tools and (kept_out := _of_a_place(text)):
        return kept_out
    what = partial(tests_of, tools=tools) if tools else _what
    if found := _ONLY.fullmatch(text):
        tests = _who(found["who"])
        if not tests:
            raise _Unknown("this rule does not name a person or role")
        whom = tests[0] if len(tests) == 1 else f"({' and '.join(tests)})"
        return _Rule([*what(found["what"]), f"not {whom}"], "deny")
    if found := _ASKED.fullmatch(text):
        says = "ask" if found["says"] == "ask" else "reflect"
        tests = what(_stem(found["what"]))
        return _Rule([*tests, *_who(found["who"] or "")], says)
    if found := _FORBIDDEN.fullmatch(text):
        return _Rule([*what(found["what"]), *_who(found["who"] or "")], "deny")
    raise _Unknown("the sentence has none of the supported forms")


def _of_a_place(text: str) -> _Rule | None:
    """Parses a rule that keeps a person or a thing out of a place, or that limits the
    speed in some weather.
    """
    for pattern in _CAPPED:
        if found := pattern.fullmatch(text):
            cap = found["cap"]
            sky = json.dumps(found["sky"])
            tests = [f"frame[{sky}] > 0", f'frame["speed"] > {cap}']
            return _Rule(tests, "slow", cap)
    if found := _OUT.fullmatch(text):
        return _Rule([*_who(found["who"]), _in(found["room"])], "deny")
    if found := _NONE_IN.fullmatch(text):
        who, room = found["who"], found["room"]
        if not is_known(_thing(who)):
            return _Rule([*_who(who), _in(room)], "deny")
        if is_known(_thing(room)):
            return _Rule(_puts(who, room), "deny")
        return _Rule([_with(who), _in(room)], "deny")
    return None


def _who(text: str) -> list[str]:
    """Returns the tests for a phrase that names the people to whom a rule applies."""
    tests: list[str] = []
    if found := _AGE.fullmatch(text):
        under = found["side"] in ("under", "below", "younger than")
        tests.append(f'user["age"] {"<" if under else ">"} {int(found["age"])}')
        text = found["rest"]
    elif found := _UN.fullmatch(text) or _LACK.fullmatch(text):
        tests.append(f"not Has(user, {json.dumps(found['lack'])})")
        text = found["rest"]
    elif found := _WITH.fullmatch(text):
        tests.append(f"Has(user, {json.dumps(found['has'])})")
        text = found["rest"]
    role = _thing(text)
    if role not in SENTENCES["anyone"]:
        if is_known(role):
            raise _Unknown(f"{role} must be a person, but is an object")
        if len(role.split()) > 3:
            raise _Unknown(f"no person or role has the name {role!r:.40}")
        tests.insert(0, f'Same(user["role"], {json.dumps(role)})')
    return tests


def _what(text: str) -> list[str]:
    """Returns the tests for a phrase with an action, its object and its place."""
    if found := _ENTER.fullmatch(text):
        return [_in(found["room"])]
    where = ""
    if (found := _PUT.fullmatch(text)) and is_known(_thing(found["place"])):
        return _puts(found["what"], found["place"])
    if found := _IN_ROOM.fullmatch(text):
        text, where = found["what"], found["room"]
    for verb in sorted(_VERBS, key=len, reverse=True):
        if text.startswith(f"{verb} ") and (thing := _thing(text[len(verb) :])):
            tests = [f'Does(action, "{_VERBS[verb]}")'] if _VERBS[verb] else []
            tests.append(f"About(action, {json.dumps(thing)})")
            return tests + ([_in(where)] if where else [])
    return [_asked_for(f"{text} in {where}" if where else text)]


def _asked_for(text: str) -> str:
    known = activities()
    for deed in sorted(known["doing"], key=len, reverse=True):
        if text.startswith(f"{deed} "):
            thing = _ARTICLE.sub("", text[len(deed) :].strip())
            for named in known["about"]:
                if named in (thing, singular(thing)):
                    return f"Asks(request, {json.dumps(deed)}, {json.dumps(named)})"
            break
    raise _Unknown(f"{text!r:.60} is not a known activity")


def _in(room: str) -> str:
    name = _thing(room)
    if is_known(name):
        raise _Unknown(f"{name} must be a room, but is an object")
    return f'Same(place["room"], {json.dumps(name)})'


def _puts(what: str, place: str) -> list[str]:
    return [
        'Does(action, "put")',
        f"About(action, {json.dumps(_thing(place))})",
        _with(what),
    ]


def _with(what: str) -> str:
    """Returns the test for an action on a thing, or with the thing in the robot's
    hand.
    """
    thing = json.dumps(_thing(what))
    return f"(About(action, {thing}) or Held(frame, {thing}))"


def _thing(text: str) -> str:
    """Normalizes the name of a thing, a room or a role: `the stoves` becomes
    `stove`.
    """
    words = _ARTICLE.sub("", text.strip()).split()
    if odd := _NEVER_IN_NAMES.intersection(words) or {
        w for w in words if not w.isalnum()
    }:
        raise _Unknown(f"{min(odd)!r} is not allowed in a name")
    if words:
        words[-1] = singular(words[-1])
    return " ".join(words)


def _stem(text: str) -> str:
    """Normalizes the verb in a text: `opening the safe` becomes `open the safe`."""
    verb, _, rest = text.partition(" ")
    stem = verb.removesuffix("ing")
    if stem == verb:
        return text
    for candidate in (stem, f"{stem}e", stem[:-1]):
        if any(f"{known} ".startswith(f"{candidate} ") for known in _VERBS):
            return f"{candidate} {rest}"
    return text


def compile_request(
    request: Request,
    source: str,
    specification: str = "",
    tools: Sequence[Tool] = (),
) -> str:
    """Compiles a request of tables and sentences to a program.

    Sentences may refer to anything that the specification of the guarded agent
    mentions. If tools are given, sentences are about calls of these tools.
    """
    parts = [_of_table(table, source) for table in request.tables]
    if request.rules:
        parts.append(sentences_program(request.rules, source, specification, tools))
    return "\n".join(parts)


def notes_on(request: Request) -> list[str]:
    """Returns remarks on a request that compiles."""
    rules = (_understood(_plain(rule.text)) for rule in request.rules)
    things = dict.fromkeys(thing for rule in rules for thing in _things(rule))
    return [
        (
            f"only the specification names {thing}, so the rule matches only this "
            "exact name"
        )
        for thing in things
        if not is_known(thing)
    ]


def _of_table(table: Table, source: str) -> str:
    if compile_ := TABLES.get(tuple(map(plain, table.head))):
        return compile_(table, source)
    known = " / ".join(map(", ".join, TABLES))
    raise InvalidRequest(
        f"unsupported table with the columns {', '.join(table.head)}",
        source=source,
        place=f"line {table.line}",
        mend=f"supported columns: {known}",
    )
