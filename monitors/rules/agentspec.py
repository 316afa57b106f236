"""Imports AgentSpec's rules.

A rule extends from `rule @name` to `end`, in the sections `trigger`, `check` and
`enforce`. The parser tolerates comments, headings, alternatives, `&`, names with dots
or spaces, older spellings, and an `end` that is missing or runs into the next `rule`.
Parts that cannot be parsed are reported with their line.

Each predicate must be built in, be listed in `agentspec.yaml`, or come from the user's
own module. A rule that uses any other name is turned off and lists the missing names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from forewarn.abstractions.errors import InvalidInput, TooLarge, near_miss
from forewarn.abstractions.files import read_text, read_yaml
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.rules.condition import parse_condition
from forewarn.monitors.rules.household import VERBS
from forewarn.monitors.rules.predicates import Domain, Library
from forewarn.monitors.rules.rule import (
    Enforced,
    Enforcement,
    Rule,
    RuleSet,
    Trigger,
    unused,
)

MAX_BYTES = 1 << 20
MAX_RULES = 2_000
"""The maximum number of rules in a file; hand-written files have far fewer."""

DEEPEST = 10
"""The maximum nesting depth of brackets in a rule."""

_RULE = re.compile(r"\b(?P<word>rule)\s*@\s*`?\s*(?P<name>[\w.-]+)", re.IGNORECASE)
_GLUED = re.compile(r"\bendrule(?=\s*@)")
_END = re.compile(r"(?<![\w@])end(?!\w)", re.IGNORECASE)
_SECTION = re.compile(
    r"^[ \t]*(?P<word>trigger|prepare|check|enforce)(?![\w])[ \t:]*",
    re.MULTILINE | re.IGNORECASE,
)
_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_BRACKETS = re.compile(r"[(\[{][^()\[\]{}]*[)\]}]")
_COMMENT = re.compile(r"//[^\n]*|(?<!\w)#[^\n]*")
_LEGACY = re.compile(r"^(act|action)\s+", re.IGNORECASE)
_HEADING = re.compile(r"^\s*(={2,}|-{2,}|\*{2,}|index\s*\d|case\s*\d)", re.IGNORECASE)


_NO_RULE = (
    "the file has no rule (a rule of AgentSpec begins with `rule @name`; Forewarn's "
    "own rules need no import)"
)


class Trouble(NamedTuple):
    """A part of a file that could not be read, and why."""

    line: int
    problem: str


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as its author wrote it, and the line where it begins.

    Any of its triggers activates it, and all of its checks must be true. Only early
    versions of AgentSpec had `prepared` computations.
    """

    name: str
    line: int
    triggers: tuple[str, ...]
    checks: tuple[str, ...]
    enforcements: tuple[str, ...]
    prepared: tuple[str, ...]


def read_agentspec(text: str) -> tuple[list[WrittenRule], list[Trouble]]:
    """Returns the rules of a file, and the parts that could not be read."""
    plain = _without_comments(text.replace("\r\n", "\n").replace("`", " "))
    plain = _GLUED.sub("end\nrule", plain)
    opened = list(_RULE.finditer(plain))
    if len(opened) > MAX_RULES:
        raise TooLarge(f"the file has more than {MAX_RULES} rules")
    if not opened:
        return [], [Trouble(1, _NO_RULE)] if plain.strip() else []
    rules: list[WrittenRule] = []
    troubles: list[Trouble] = []
    for found, body in _segments(opened, plain):
        line = plain.count("\n", 0, found.start()) + 1
        endings = list(_END.finditer(body))
        if endings:
            body = body[: endings[-1].start()]
        read = _written(found, line, body)
        if isinstance(read, str):
            troubles.append(Trouble(line, read))
        else:
            rules.append(read)
    return rules, troubles


def _segments(
    found: Sequence[re.Match[str]], text: str
) -> Iterator[tuple[re.Match[str], str]]:
    ends = [*(match.start() for match in found), len(text)][1:]
    return ((m, text[m.end() : end]) for m, end in zip(found, ends, strict=True))


def _without_comments(text: str) -> str:
    """Blanks the comments in a text; line numbers stay the same."""
    kept: list[str] = []
    for line in text.split("\n"):
        comment = _COMMENT.search(_TEXT.sub(_masked, line))
        kept.append(line[: comment.start()] if comment else line)
    return "\n".join("" if _HEADING.match(line) else line for line in kept)


def _masked(found: re.Match[str]) -> str:
    return "x" * len(found[0])


def _split(text: str, separators: str) -> Iterator[str]:
    """Yields the parts between separators that are not inside quotes or brackets."""
    plain = _TEXT.sub(_masked, text)
    for _ in range(DEEPEST):
        plain = _BRACKETS.sub(_masked, plain)
    start = 0
    for end in [*re.finditer(separators, plain), None]:
        part = text[start : end.start() if end else len(text)]
        start = end.end() if end else len(text)
        if part.strip():
            yield " ".join(line.strip() for line in part.strip().split("\n"))


def _written(found: re.Match[str], line: int, body: str) -> WrittenRule | str:
    name, opened = found["name"], list(_SECTION.finditer(body))
    for word in (found["word"], *(each["word"] for each in opened)):
        if not word.islower():
            return f"rule {name}: write {word.lower()} in lower case, like all keywords"
    sections = {word["word"]: part for word, part in _segments(opened, body)}
    words = _split(sections.get("trigger", ""), r"[|\n,]")
    triggers = tuple(_LEGACY.sub("", word) for word in words)
    enforcements = tuple(_split(sections.get("enforce", ""), r"\n"))
    if not triggers:
        return f"rule {name} has no trigger (add `trigger any` after the name)"
    if not enforcements:
        return f"rule {name} has no enforcement (add `enforce stop` before `end`)"
    checks = tuple(_split(sections.get("check", ""), r"\n|&&?|\band\b"))
    prepared = tuple(_split(sections.get("prepare", ""), r"\n"))
    return WrittenRule(name, line, triggers, checks, enforcements, prepared)


SUFFIXES = (".ar", ".rule", ".spec", ".agentspec")

_PLANNED = re.compile(r"^[\w.]+(?::[\w.]+)+\s*=\s*(?P<value>[-+\d.eE]+)\s*$")
_CALLED = re.compile(r"^(?P<name>[A-Za-z_]\w*)\s*\((?P<inside>.*)\)$", re.DOTALL)
_NUMBER = re.compile(r"^[-+]?\d+(\.\d+)?$")
_WORD = re.compile(r"^[A-Za-z_]\w*$")
_VERBS = frozenset(verb.replace("_", "") for verb in VERBS)
_NAMES = read_yaml(Path(__file__).with_name("agentspec.yaml"))
_WORDS: Mapping[str, Enforced] = _NAMES["enforcements"]
_MOMENTS = {
    "state_change": Trigger("tick"),
    "before_action": Trigger("before"),
    "after_action": Trigger("after"),
    "finish": Trigger("finish"),
    "any": Trigger("before"),
}


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import: the rules, the unreadable parts (by file, line and
    problem), and the names of all predicates.
    """

    rules: RuleSet
    files: int
    unread: tuple[tuple[str, int, str], ...]
    known: frozenset[str]

    @property
    def runnable(self) -> int:
        """The number of rules that can run."""
        return sum(not rule.needs for rule in self.rules.rules)

    def fixes(self) -> list[tuple[str, str, str]]:
        """Returns each missing name with its rule, and the fix if one is known."""
        return [
            (rule.name, need, self._fix(need))
            for rule in self.rules.rules
            for need in rule.needs
        ]

    def _fix(self, need: str) -> str:
        if _CALLED.match(need):
            return ""
        if re.search(r"\bor\b|\|", need, re.IGNORECASE):
            return "AgentSpec has no `or`: write a rule for each side"
        if re.search(r"\band\b|&", need, re.IGNORECASE) or need.startswith("("):
            return "AgentSpec has no parentheses: write each condition on its own line"
        word = need.removeprefix("enforcement ")
        plain = word.casefold()
        known = plain in self.known or plain in _WORDS
        if known and plain != word:
            return f"write {plain} in lower case"
        if word == need:
            return ""
        return near_miss(word, _WORDS) or f"write {', '.join(_WORDS)} or invoke_action"

    def as_dict(self) -> dict[str, Any]:
        """Returns the output of `forewarn rules import --json`."""
        return {
            "files": self.files,
            "rules": len(self.rules.rules),
            "runnable": self.runnable,
            "needs": [
                {"rule": rule, "predicate": p} | ({"fix": fix} if fix else {})
                for rule, p, fix in self.fixes()
            ],
            "unread": [
                {"file": file, "line": line, "problem": problem}
                for file, line, problem in self.unread
            ],
        }


def rule_files(paths: Iterable[Path]) -> list[Path]:
    """Returns the files, and the rule files anywhere below the folders."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            below = (p for p in path.rglob("*") if p.suffix in SUFFIXES and p.is_file())
            found += sorted(below)
        else:
            found.append(path)
    if not found:
        raise InvalidInput(
            "there is no rule file in these paths",
            mend=f"rule files end in {', '.join(SUFFIXES)}",
        )
    return found


def import_rules(
    files: Sequence[Path],
    libraries: Mapping[Domain, Library],
    domain: Domain | None = None,
    exact: bool = False,
) -> Imported:
    """Imports rules from files.

    Args:
        files: The paths of the files; empty files are ignored.
        domain: The domain of all rules; by default, the one that each trigger implies.
        exact: Whether to use AgentSpec's own matching.
    """
    rules: list[Rule] = []
    unread: list[tuple[str, int, str]] = []
    count = 0
    for path in files:
        text = read_text(path, MAX_BYTES)
        if not text.strip():
            continue
        count += 1
        written, troubles = read_agentspec(text)
        unread += [(str(path), *trouble) for trouble in troubles]
        for each in written:
            own = domain or _domain(each)
            for rule in _rules(each, own, libraries[own], exact):
                name = unused(rule.name, {other.name for other in rules})
                rules.append(replace(rule, name=name))
    domains = [rule.domain for rule in rules]
    main = domain if domain else max(list(libraries), key=domains.count)
    kept = tuple(
        replace(r, domain=None if r.domain == main else r.domain) for r in rules
    )
    found = RuleSet(main, kept, "imported")
    if exact:
        found = replace(found, match="first", matching="exact")
    names = frozenset(name for each in libraries.values() for name in each.predicates)
    return Imported(found, count, tuple(unread), names)


def _domain(rule: WrittenRule) -> Domain:
    for word in rule.triggers:
        if word == "state_change":
            return "driving"
        if re.sub(r"[\s_]", "", word.casefold()) in _VERBS:
            return "household"
    return "code"


def _rules(
    rule: WrittenRule, domain: Domain, library: Library, exact: bool
) -> Iterator[Rule]:
    """Yields a rule for each moment at which an AgentSpec rule is evaluated."""
    conditions: list[str] = []
    needs: list[str] = []
    for check in rule.checks:
        condition, need = _condition(check, library, exact)
        if need:
            needs.append(need)
        elif condition != "true":
            conditions.append(condition)
    enforcement, mode, unknown = _enforcement(rule.enforcements)
    said = f"{' | '.join(rule.triggers)}: {' & '.join(rule.checks) or 'true'}"
    for trigger in _all_triggers(rule.triggers, exact):
        yield Rule(
            name=rule.name,
            when=" and ".join(conditions) or "true",
            trigger=trigger,
            enforcement=enforcement,
            mode="shadow" if mode == "none" else "enforce",
            doc=f"From AgentSpec: {' '.join(said.split())[:200]}",
            needs=(*needs, *unknown, *(f"prepare {each}" for each in rule.prepared)),
            domain=domain,
        )


def _all_triggers(words: Sequence[str], exact: bool) -> list[Trigger]:
    """Returns the triggers of a rule: the actions that it names, and other moments."""
    found = dict.fromkeys(_MOMENTS[word] for word in words if word in _MOMENTS)
    actions = [word for word in words if word not in _MOMENTS]
    if actions and Trigger("before") not in found:
        plain = ["_".join(word.removeprefix("any.").split()) for word in actions]
        found = {Trigger("before", tuple(actions if exact else plain)): None, **found}
    return list(found)


def _condition(check: str, library: Library, exact: bool) -> tuple[str, str]:
    """Returns the condition, and the missing predicate if there is one."""
    text = check.strip().rstrip(";").strip()
    negated = False
    while text.startswith(("!", "not ")):
        text = text.removeprefix("!").removeprefix("not ").strip()
        negated = True if exact else not negated
    found = _atom(text, library)
    if found is None:
        return "", _WORD.match(text) and text or text[:80]
    return (f"not ({found})" if negated else found), ""


def _atom(text: str, library: Library) -> str | None:
    if text.casefold() in ("true", "false"):
        return text.casefold()
    if text in library.predicates:
        return text
    table = _NAMES.get(library.domain, {})
    if text in table:
        return _checked(str(table[text]), library)
    called = _CALLED.match(text)
    if called is None or not _NUMBER.match(called["inside"].strip()):
        return None
    name, number = called["name"], float(called["inside"])
    meant = table.get(name)
    if isinstance(meant, dict):
        meant = meant.get(int(number)) if number == int(number) else None
    if meant is None:
        return None
    return _checked(str(meant).replace("{x}", f"{number:g}"), library)


def _checked(condition: str, library: Library) -> str | None:
    """Returns the condition if the library has all predicates that it needs."""
    try:
        parse_condition(condition, library)
    except InvalidInput:
        return None
    return condition


def _enforcement(lines: Sequence[str]) -> tuple[Enforcement, str, list[str]]:
    """Combines enforcements as AgentSpec does: the last counts; settings are merged.

    Unknown enforcements are returned as missing names, which turn the rule off.
    """
    found = Enforcement("alert")
    word = "none"
    unknown: list[str] = []
    parameters: dict[str, float] = {}
    for line in lines:
        planned = _PLANNED.match(line)
        if planned:
            name = line.partition("=")[0].strip()
            parameters[name] = float(planned["value"])
            continue
        called = _CALLED.match(line)
        word = called["name"] if called else line.split()[0]
        if word == "invoke_action" and called:
            found = Enforcement("substitute", _invoked(called["inside"]))
        elif word in _WORDS:
            found = Enforcement(_WORDS[word])
        else:
            unknown.append(f"enforcement {word}")
    if parameters:
        stops = any(name.endswith(":emergency_stop") for name in parameters)
        kind = "stop" if stops else "slow"
        found = Enforcement(kind, parameters=parameters)  # type: ignore[arg-type]
        word = "planned"
    return found, word, unknown


def _invoked(inside: str) -> Action:
    """Parses `name, {"key": value}` as an action; keeps other expressions as text."""
    name, _, rest = inside.partition(",")
    try:
        tree = ast.parse(rest.strip() or "{}", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Action(name.strip().strip("\"'"), {"text": rest.strip()})
    arguments: dict[str, Any] = {}
    if isinstance(tree, ast.Dict):
        for key, value in zip(tree.keys, tree.values, strict=True):
            if isinstance(key, ast.Constant):
                arguments[str(key.value)] = (
                    value.value
                    if isinstance(value, ast.Constant)
                    and isinstance(value.value, str | int | float | bool)
                    else ast.unparse(value)
                )
    return Action(name.strip().strip("\"'"), arguments)
