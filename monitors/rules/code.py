"""Predicates about agents that run Python, evaluated on the parsed program.

Predicates about a program's calls are in `code_calls`. This module contains those about
secrets, keys and decisions about people, and the complete library.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise

from forewarn.monitors.rules.arguments import Arguments, looks_like_sql
from forewarn.monitors.rules.code_calls import (
    FILES,
    NETWORK,
    RUNNING,
    Asked,
    Table,
    calling,
    calls,
)
from forewarn.monitors.rules.code_program import (
    MAX_CHARACTERS,
    NONE,
    Known,
    Program,
    named_by,
    parsed,
    receiver,
    unfenced,
    without_magic,
)
from forewarn.monitors.rules.condition import UnknownSignal
from forewarn.monitors.rules.predicates import (
    Event,
    Holds,
    Library,
    State,
    plain_predicates,
)
from forewarn.monitors.rules.shell import programs_of, steps_of

_SECRET = re.compile(
    r"pass(word|wd|phrase|code)?$|passw|secret|token|api_?key|private_?key|credential"
    r"|card_?num|(^|_)(pin|otp|cvv|ssn)(_|$)|security_?code",
    re.IGNORECASE,
)
_KEYED = re.compile(
    r"key|token|secret|passw|otp|salt|nonce|session|seed", re.IGNORECASE
)
_FRESH = re.compile("time|urandom|secrets|uuid|entropy|SystemRandom")


def _compares_secret(program: Program) -> bool:
    for node in program.all(ast.Compare):
        equal = any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
        sides = [node.left, *node.comparators]
        secret = any(_SECRET.search(named_by(side)) for side in sides)
        empty = any(isinstance(s, ast.Constant) and not s.value for s in sides)
        if equal and secret and not empty:
            return True
    starts = program.called("?.startswith", "?.endswith")
    return any(_SECRET.search(receiver(call)) for call in starts)


def _holds_secret(program: Program) -> bool:
    """Whether a secret is hard-coded: as an assigned value or a keyword argument."""
    for node in program.nodes:
        match node:
            case ast.Assign(targets=[target], value=ast.Constant(value=str(text))):
                if text and _SECRET.search(named_by(target)):
                    return True
            case ast.keyword(arg=str(name), value=ast.Constant(value=str(text))):
                if text and _SECRET.search(name):
                    return True
    return False


def _prints_secret(program: Program) -> bool:
    return any(
        _shows_secret(node)
        for call in calls(program, "prints")
        for node in ast.walk(call.node)
    )


def _shows_secret(node: ast.AST) -> bool:
    """Whether a node is a secret, judging by its name or the text before it."""
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return bool(_SECRET.search(named_by(node)))
        case ast.JoinedStr(values=parts):
            return any(
                isinstance(part, ast.Constant)
                and isinstance(shown, ast.FormattedValue)
                and _SECRET.search(str(part.value).rstrip(" :='\""))
                for part, shown in pairwise(parts)
            )
    return False


def _seeds_constant(program: Program) -> bool:
    return any(
        call.node.args and not _calls_anything_random(program, call.node.args[0])
        for call in calls(program, "seeds")
    )


def _calls_anything_random(program: Program, node: ast.AST) -> bool:
    named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    kinds = {program.known.kinds.get(name, "") for name in named}
    made = {ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    return any(map(_FRESH.search, kinds | made))


def _makes_keys(program: Program) -> bool:
    """Whether predictable random numbers are used for something secret."""
    draws = any(call.name.startswith("random.") for call in program.calls)
    named = [f.name for f in program.functions()]
    named += [node.id for node in program.all(ast.Name)]
    return draws and any(_KEYED.search(name) for name in named)


def _hashes_secret(program: Program) -> bool:
    """Whether a password is hashed without salt by a fast hash function."""
    return any(
        _SECRET.search(named_by(node))
        for call in calls(program, "hashes")
        for argument in call.node.args
        for node in ast.walk(argument)
    )


SECRETS: Table = {
    "holds_secret": _holds_secret,
    "prints_secret": _prints_secret,
    "compares_secret": _compares_secret,
    "hashes_secret": _hashes_secret,
    "hashes_weakly": calling("digests"),
    "seeds_constant": _seeds_constant,
    "guessable_keys": _makes_keys,
}


_PEOPLE = re.compile(
    r"^(is_?)?(race|racial|ethnic\w*|gender|sex|religio\w*|nationalit\w*|skin\w*|caste"
    r"|age|disab\w*|marital\w*|sexual\w*|immigra\w*|country_of_\w+|native_\w+|ethnicity"
    r"|birth_?(place|country)|political\w*|income_?class|class_?background|accent"
    r"|pregnan\w*|weight|height|looks|appearance|orientation|region|hometown"
    r"|wealth|economic_?\w*|education\w*|citizenship|beauty|attractive\w*|complexion"
    r"|persona(lity)?|body_?(type|shape|size)|faith|creed|surname|dialect)$",
    re.IGNORECASE,
)
_RIGHTS = re.compile(
    r"^_*(is|has|can|check|verify|may|validate|ensure|confirm)[A-Z_]?", re.ASCII
)


def _turned_on(program: Program) -> Iterator[ast.expr]:
    """Yields the values on which a program branches: compared values and keys."""
    for node in program.nodes:
        match node:
            case ast.Compare(left=left, comparators=others):
                yield left
                yield from others
            case ast.Subscript(slice=key):
                yield key
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
                yield key


def _always_true(program: Program) -> bool:
    """Whether a check always passes, because its only statement returns True."""
    for function in program.functions():
        body = [
            node
            for node in function.body
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        ]
        match body:
            case [ast.Return(value=ast.Constant(value=True))]:
                if _RIGHTS.match(function.name):
                    return True
    return False


def _repeats_keys(program: Program) -> bool:
    for node in program.nodes:
        match node:
            case ast.Dict(keys=keys):
                if _twice(keys):
                    return True
            case ast.List(elts=pairs) | ast.Tuple(elts=pairs):
                if _twice([_first(pair) for pair in pairs]):
                    return True
    appended: dict[str, list[ast.expr | None]] = {}
    for call in program.called("?.append"):
        if call.node.args:
            first = _first(call.node.args[0])
            appended.setdefault(receiver(call), []).append(first)
    return any(_twice(keys) for keys in appended.values())


def _first(pair: ast.expr) -> ast.expr | None:
    if isinstance(pair, ast.Tuple | ast.List) and len(pair.elts) == 2:
        return pair.elts[0]
    return None


def _twice(keys: Sequence[ast.expr | None]) -> bool:
    values = [repr(key.value) for key in keys if isinstance(key, ast.Constant)]
    texts = [value for value in values if value[0] in "'\""]
    return len(set(texts)) < len(texts)


def _no_default(program: Program) -> bool:
    """Whether equality tests on one name, or a match, lack a default case."""
    for node in program.nodes:
        if isinstance(node, ast.If) and _open_chain(node) >= 2:
            return True
        if isinstance(node, ast.Match):
            last = node.cases[-1].pattern
            if not (isinstance(last, ast.MatchAs) and last.pattern is None):
                return True
    return False


def _open_chain(node: ast.If) -> int:
    """Counts successive equality tests; 0 if there is an else."""
    length = 0
    subject = None
    while True:
        match node.test:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Eq()]):
                if subject not in (None, name):
                    return 0
                subject = name
            case _:
                return 0
        length += 1
        match node.orelse:
            case []:
                return length
            case [ast.If() as following]:
                node = following
            case _:
                return 0


def _checks_addresses(program: Program) -> bool:
    """Whether the program validates a URL or host with a regular expression."""
    octet = re.compile(r"\\d\{1,3\}|\[0-9\]\{1,3\}|25\[0-5\]|\\d\+\\\.\\d\+")
    written = NONE.union(*(call.texts for call in calls(program, "matches")))
    return any(map(octet.search, written | program.texts))


FAULTS: Table = {
    "judges_people": lambda p: any(_PEOPLE.match(named_by(n)) for n in _turned_on(p)),
    "lets_everyone_pass": _always_true,
    "repeats_keys": _repeats_keys,
    "lacks_default": _no_default,
    "checks_addresses": _checks_addresses,
    "unreadable": lambda p: not p.readable,
}


def program_of(event: Event, known: Known, arguments: Arguments) -> Program:
    """Combines into one program all code that an action would run.

    Shell commands become calls. Text that is not Python is treated as a shell command,
    unless it is SQL.
    """
    tool = f"{event.action} {event.tool}".strip()
    pythons: list[str] = []
    commands: list[str] = []
    readable = True
    for role, text in arguments.texts(tool, event.arguments):
        if role == "code" and parsed(text) is None:
            text, magic = without_magic(text)
            commands += magic
        if role == "shell":
            commands.append(text)
        elif role == "code" and parsed(text) is not None:
            pythons.append(unfenced(text))
        elif role == "code" and not looks_like_sql(text):
            readable = False
            commands.append(text)
    if sum(map(len, commands)) <= MAX_CHARACTERS:
        for step in (step for text in commands for step in steps_of(text)):
            pythons += (text for text in programs_of(step) if parsed(text) is not None)
    calls = [f"_shell.system({text!r})" for text in commands]
    imported = ["import os as _shell"] if calls else []
    whole = "\n".join([*pythons, *imported, *calls])
    program = Program(whole, known)
    program.readable &= readable
    program.too_long = len(whole) > MAX_CHARACTERS
    return program


class Session(State):
    """The state of a code agent's session after the cells so far.

    Attributes:
        program: The program of the current event; empty if the event has none.
    """

    __slots__ = ("program", "_arguments", "_known")

    def __init__(self, arguments: Arguments) -> None:
        self._arguments, self._known = arguments, Known()
        self.program = Program("")

    def read(self, event: Event) -> None:
        """Parses a program before it runs, and records it after it has run."""
        if event.moment == "before":
            self.program = program_of(event, self._known, self._arguments)
        elif event.moment == "after":
            self._known = self.program.known
        else:
            self.program = Program("")


_ALL: Table = {**NETWORK, **FILES, **RUNNING, **SECRETS, **FAULTS}


def _holds(name: str, asked: Asked) -> Holds:
    def holds(event: Event, state: Session, history: Sequence[Event]) -> bool:
        if event.moment != "before":
            return False
        if state.program.too_long and name != "unreadable":
            problem = f"the program is longer than {MAX_CHARACTERS} characters"
            raise UnknownSignal(problem, problem)
        return asked(state.program)

    return holds


@cache
def code() -> Library:
    """Returns the predicates about code agents."""
    return Library(
        "code",
        plain_predicates(
            "code", {name: _holds(name, each) for name, each in _ALL.items()}
        ),
        start=Session,
        fields={"action": lambda event, state: event.action or None},
    )
