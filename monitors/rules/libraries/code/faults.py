"""Faults of programs that a reader sees: unfair, careless or incomplete."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from forewarn.monitors.rules.libraries.code.calls import Table
from forewarn.monitors.rules.libraries.code.program import (
    Program,
    named_by,
    receiver,
)

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
    """What a program turns on: what is compared, and by what it looks things up."""
    for node in program.nodes:
        match node:
            case ast.Compare(left=left, comparators=others):
                yield left
                yield from others
            case ast.Subscript(slice=key):
                yield key
            case ast.Call(func=ast.Attribute(attr="get"), args=[key, *_]):
                yield key


def _judges_people(program: Program) -> bool:
    return any(_PEOPLE.match(named_by(node)) for node in _turned_on(program))


def _always_true(program: Program) -> bool:
    """A check that lets everyone pass: its only statement returns True."""
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
    """A chain of equal-to on one name, or a match, that has no last else."""
    for node in program.nodes:
        if isinstance(node, ast.If) and _open_chain(node) >= 2:
            return True
        if isinstance(node, ast.Match):
            last = node.cases[-1].pattern
            if not (isinstance(last, ast.MatchAs) and last.pattern is None):
                return True
    return False


def _open_chain(node: ast.If) -> int:
    """How many equal-to's follow each other without an else; 0 if there is one."""
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
    """An address of the internet that is told by a regular expression."""
    patterns = program.called("re.match", "re.compile", "re.fullmatch", "re.search")
    octet = re.compile(r"\\d\{1,3\}|\[0-9\]\{1,3\}|25\[0-5\]|\\d\+\\\.\\d\+")
    return any(octet.search(text) for call in patterns for text in call.texts) or any(
        octet.search(text) for text in program.texts
    )


FAULTS: Table = {
    "judges_people": (
        "A decision turns on what a person is: origin, sex, age, belief.",
        _judges_people,
    ),
    "lets_everyone_pass": ("A check of rights lets everyone pass.", _always_true),
    "repeats_keys": ("A list or mapping of keys holds one twice.", _repeats_keys),
    "lacks_default": ("A choice between cases has none for the rest.", _no_default),
    "checks_addresses": (
        "An internet address is told by a regular expression.",
        _checks_addresses,
    ),
    "unreadable": ("The program cannot be parsed.", lambda p: not p.readable),
}
