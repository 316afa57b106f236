"""Parses shell commands, without running them: programs, arguments and redirections.

Words are split as in a POSIX shell, with quotes, substitutions, redirections, heredocs
and pipelines. A variable's value is unknown, so the variable is kept as written.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

MAX_DEPTH = 8
_OPERATORS = re.compile(r"\|\||&&|;;|\|&|&>>|<<<|<<-|[<>]&|&>|>>|>\||<<|[|&;()<>\n]")
_SEPARATORS = frozenset((";", "&&", "||", "&", "\n", "(", ")", ";;"))
_KEYWORDS = frozenset("if then elif else fi do done while until { } ! time".split())
_CARRIERS = frozenset(
    "sudo doas env nohup nice time timeout xargs command exec builtin stdbuf setsid"
    " busybox watch".split()
)
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_TAKES_VALUE = re.compile(r"-(u|g|n|k|s|S|i|o|e|I|P|L|d|C)$")
SHELLS = frozenset("sh bash zsh dash ksh ash fish".split())
INTERPRETERS = re.compile(r"(python[\d.]*|perl|ruby|node|php|lua)$")


@dataclass(slots=True)
class ShellCommand:
    """One command of a pipeline.

    Args:
        words: The plain name of the called program, and its arguments.
        carriers: The programs through which it is called, such as `sudo`.
        inside: The commands in substitutions.
        writes: The files written by redirection; `reads` are those that are read.
        given: The text on its standard input.
        source: The previous step in the pipeline.
    """

    words: list[str] = field(default_factory=list)
    carriers: tuple[str, ...] = ()
    inside: list[ShellCommand] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    given: str = ""
    source: ShellCommand | None = None

    @property
    def name(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def arguments(self) -> list[str]:
        """The words after the name, without options."""
        return [word for word in self.words[1:] if not word.startswith("-")]

    @property
    def options(self) -> str:
        """The letters of the short options, and the long options."""
        return " ".join(word for word in self.words[1:] if word.startswith("-"))

    def before(self) -> Iterator[ShellCommand]:
        """Yields the steps whose output this one receives, the nearest first."""
        step = self.source
        while step is not None:
            yield step
            step = step.source


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    operator: bool = False
    runs: tuple[str, ...] = ()
    """The commands whose output is substituted in the word."""


def steps_of(text: str, depth: int = 0) -> list[ShellCommand]:
    """Returns the commands in a text; nested commands come after the outer ones."""
    if depth > MAX_DEPTH:
        return []
    found: list[ShellCommand] = []
    step, source = ShellCommand(), None
    tokens = iter(list(_tokens(text)))
    for token in tokens:
        if not token.operator:
            for run in token.runs:
                step.inside += steps_of(run, depth + 1)
            step.words.append(token.text)
            continue
        if token.text in ("<<", "<<-", "<<<"):
            step.given = next(tokens, _Token("")).text
        elif token.text[0] in "<>" or token.text.startswith("&>"):
            target = next(tokens, _Token(""))
            for run in target.runs:
                step.inside += steps_of(run, depth + 1)
            # A number is a file descriptor that is already open.
            if not target.operator and not target.text.isdecimal():
                (step.reads if token.text == "<" else step.writes).append(target.text)
        elif token.text in ("|", "|&"):
            step.source, source = source, step
            found.append(step)
            step = ShellCommand()
        elif token.text in _SEPARATORS:
            step.source, source = source, None
            found.append(step)
            step = ShellCommand()
    step.source = source
    return _completed([*found, step], depth)


def _completed(steps: list[ShellCommand], depth: int) -> list[ShellCommand]:
    """Returns the steps with plain names, and the steps that they run in turn."""
    found: list[ShellCommand] = []
    for step in steps:
        _strip(step)
        inner = list(step.inside)
        for script in _scripts(step):
            inner += steps_of(script, depth + 1)
        if step.words or step.writes:
            found.append(step)
        found += inner
    return found


def _strip(step: ShellCommand) -> None:
    """Removes assignments, keywords and wrappers such as `sudo`."""
    words, carriers = step.words, []
    while words:
        if words[0] in _KEYWORDS or _ASSIGNED.match(words[0]):
            words = words[1:]
        elif words[0] in ("for", "case", "select", "function"):
            words = []
        elif posixpath.basename(words[0]) in _CARRIERS:
            carriers.append(posixpath.basename(words[0]))
            words = words[1:]
            while words and (words[0].startswith("-") or words[0][:1].isdigit()):
                words = words[2 if _TAKES_VALUE.match(words[0]) else 1 :]
        else:
            break
    if words:
        words = [posixpath.basename(words[0]) or words[0], *words[1:]]
    step.words, step.carriers = words, tuple(carriers)


def _scripts(step: ShellCommand) -> Iterator[str]:
    if step.name in SHELLS:
        for option, text in zip(step.words[1:], step.words[2:], strict=False):
            if option.startswith("-") and option.endswith("c"):
                yield text
        if step.given:
            yield step.given
    elif step.name in ("eval", "su", "ssh"):
        yield " ".join(step.arguments[step.name == "ssh" :])
    elif step.name == "find":
        for option in ("-exec", "-execdir", "-ok"):
            if option in step.words:
                yield " ".join(step.words[step.words.index(option) + 1 :])


def programs_of(step: ShellCommand) -> Iterator[str]:
    """Yields the Python programs that a step runs."""
    if not step.name.startswith("python"):
        return
    for option, text in zip(step.words[1:], step.words[2:], strict=False):
        if option == "-c":
            yield text
    if step.given:
        yield step.given


# -- words -----------------------------------------------------------------------------


def _tokens(text: str) -> Iterator[_Token]:
    """Yields words and operators from left to right."""
    at, heredocs = 0, []
    text = text.replace("\\\n", " ")
    while at < len(text):
        character = text[at]
        if character in " \t\r":
            at += 1
        elif character == "#":
            at = _until(text, "\n", at)
        elif text.startswith(("<(", ">("), at):
            end = _closed(text, at + 2)
            yield _Token("<()", runs=(text[at + 2 : end],))
            at = end + 1
        elif operator := _OPERATORS.match(text, at):
            at = operator.end()
            if operator[0] in ("<<", "<<-"):
                word, at = _word(text, at + len(text[at:]) - len(text[at:].lstrip(" ")))
                heredocs.append(word.text)
                yield _Token("<<", operator=True)
                yield _Token(_body(text, at, heredocs))
                continue
            yield _Token(operator[0], operator=True)
            if operator[0] == "\n":
                for mark in heredocs:
                    at = _after(text, at, mark)
                heredocs = []
        else:
            word, at = _word(text, at)
            # A file descriptor precedes the redirection.
            redirects = word.text.isdecimal() and text[at : at + 1] in ("<", ">")
            if not redirects:
                yield word


def _word(text: str, at: int) -> tuple[_Token, int]:
    """Returns the word at a position, without quotes, and the position of its end."""
    found: list[str] = []
    runs: list[str] = []
    quoted = False
    while at < len(text):
        character = text[at]
        if character == '"':
            quoted = not quoted
            at += 1
        elif character == "'" and not quoted:
            end = _until(text, "'", at + 1)
            found.append(text[at + 1 : end])
            at = end + 1
        elif character == "\\" and at + 1 < len(text):
            kept = quoted and text[at + 1] not in '"\\$`'
            found.append(text[at : at + 2] if kept else text[at + 1])
            at += 2
        elif character == "`" or text.startswith("$(", at):
            start = at + (1 if character == "`" else 2)
            end = _until(text, "`", start) if start == at + 1 else _closed(text, start)
            runs.append(text[start:end])
            found.append("$()")
            at = end + 1
        elif not quoted and (character in " \t\r" or _OPERATORS.match(text, at)):
            break
        else:
            found.append(character)
            at += 1
    return _Token("".join(found), runs=tuple(runs)), max(at, 1)


def _until(text: str, mark: str, at: int) -> int:
    end = text.find(mark, at)
    return len(text) if end < 0 else end


def _closed(text: str, at: int) -> int:
    """Returns the position at which an open parenthesis is closed."""
    depth, quote = 1, ""
    while at < len(text):
        character = text[at]
        if character == "\\":
            at += 1
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "()":
            depth += 1 if character == "(" else -1
            if not depth:
                return at
        at += 1
    return len(text)


def _after(text: str, at: int, end: str) -> int:
    """Returns the end of the line that closes the heredoc whose body is at `at`."""
    close = re.compile(rf"^\t*{re.escape(end)}$", re.MULTILINE).search(text, at)
    return close.end() if close else len(text)


def _body(text: str, at: int, ends: list[str]) -> str:
    start = _until(text, "\n", at) + 1
    for end in ends[:-1]:
        start = _after(text, start, end) + 1
    return text[start : max(start, _after(text, start, ends[-1]) - len(ends[-1]))]
