"""AgentSpec's text form, read as people write it.

A rule stands from `rule @name` to `end`, in sections `trigger`, `check` and `enforce`.
Comments, headings, glued or missing `end`s, alternatives, `&`, dotted and spaced names
and older spellings are understood; what is not is said, with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_RULE = re.compile(r"\brule\s*@\s*`?\s*(?P<name>[\w.-]+)")
_GLUED = re.compile(r"\bendrule(?=\s*@)")
_END = re.compile(r"(?<![\w@])end(?!\w)")
_SECTION = re.compile(
    r"^[ \t]*(?P<word>trigger|prepare|check|enforce)(?![\w])[ \t:]*", re.MULTILINE
)
_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_COMMENT = re.compile(r"//[^\n]*|(?<!\w)#[^\n]*")
_LEGACY = re.compile(r"^(act|action)\s+", re.IGNORECASE)
_HEADING = re.compile(r"^\s*(={2,}|-{2,}|\*{2,}|index\s*\d|case\s*\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What could not be read, and where."""

    line: int
    problem: str


@dataclass(frozen=True, slots=True)
class WrittenRule:
    """A rule as its author wrote it.

    Args:
        name: What follows the `@`.
        line: Where it begins.
        triggers: Its events; any of them asks it.
        checks: Its conditions; all of them must hold.
        enforcements: What it does, in its order.
        prepared: What it wants to be worked out before, which only its authors' early
            versions had.
        text: All of it.
    """

    name: str
    line: int
    triggers: tuple[str, ...]
    checks: tuple[str, ...]
    enforcements: tuple[str, ...]
    prepared: tuple[str, ...]
    text: str


def read_agentspec(text: str) -> tuple[list[WrittenRule], list[Trouble]]:
    """The rules of a file, and what of it could not be read."""
    plain = _without_comments(text.replace("\r\n", "\n").replace("`", " "))
    plain = _GLUED.sub("end\nrule", plain)
    opened = list(_RULE.finditer(plain))
    if not opened:
        said = [Trouble(1, "no rule in it")] if plain.strip() else []
        return [], said
    rules: list[WrittenRule] = []
    troubles: list[Trouble] = []
    for index, found in enumerate(opened):
        after = opened[index + 1].start() if index + 1 < len(opened) else len(plain)
        line = plain.count("\n", 0, found.start()) + 1
        body = plain[found.end() : after]
        endings = list(_END.finditer(body))
        if endings:
            body = body[: endings[-1].start()]
        rule, problem = _rule(found["name"], line, body)
        if rule is not None:
            rules.append(rule)
        else:
            troubles.append(Trouble(line, problem))
    return rules, troubles


def _without_comments(text: str) -> str:
    """The text with its comments blanked, and its line numbers kept."""
    kept: list[str] = []
    for line in text.split("\n"):
        if _HEADING.match(line):
            kept.append("")
            continue
        cut = len(line)
        for comment in _COMMENT.finditer(line):
            texts = (t.span() for t in _TEXT.finditer(line))
            if not any(start <= comment.start() < end for start, end in texts):
                cut = comment.start()
                break
        kept.append(line[:cut])
    return "\n".join(kept)


def _rule(name: str, line: int, body: str) -> tuple[WrittenRule | None, str]:
    sections: dict[str, str] = {}
    words = list(_SECTION.finditer(body))
    for index, word in enumerate(words):
        after = words[index + 1].start() if index + 1 < len(words) else len(body)
        sections[word["word"]] = body[word.end() : after]
    triggers = tuple(_triggers(sections.get("trigger", "")))
    enforcements = tuple(_lines(sections.get("enforce", "")))
    if not triggers:
        return None, f"rule {name} has no trigger"
    if not enforcements:
        return None, f"rule {name} says not what to do"
    checks = tuple(_parts(sections.get("check", "")))
    prepared = tuple(_lines(sections.get("prepare", "")))
    whole = f"rule @{name}{body.rstrip()}\nend"
    written = WrittenRule(name, line, triggers, checks, enforcements, prepared, whole)
    return written, ""


def _triggers(text: str) -> Iterator[str]:
    for part in re.split(r"[|\n,]", text):
        word = _LEGACY.sub("", part.strip()).strip()
        if word:
            yield word


def _lines(text: str) -> Iterator[str]:
    """The lines, where one that opens a bracket goes on to where it is closed."""
    pending = ""
    for line in text.split("\n"):
        pending = f"{pending} {line.strip()}".strip()
        if pending and _depth(pending) <= 0:
            yield pending
            pending = ""
    if pending:
        yield pending


def _depth(text: str) -> int:
    bare = _TEXT.sub("", text)
    return sum(bare.count(c) for c in "([{") - sum(bare.count(c) for c in ")]}")


def _parts(text: str) -> Iterator[str]:
    """The conditions, joined by new lines, `&`, `&&` or `and`."""
    for line in _lines(text):
        pending = ""
        for part in re.split(r"(&&?|\band\b)", line):
            joins = part in ("&", "&&", "and")
            if joins and _depth(pending) <= 0 and pending.count('"') % 2 == 0:
                if pending.strip():
                    yield pending.strip()
                pending = ""
            else:
                pending += part
        if pending.strip():
            yield pending.strip()
