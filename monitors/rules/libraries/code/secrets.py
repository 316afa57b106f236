"""Hazards of programs that handle secrets, and the chance that makes them."""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from forewarn.monitors.rules.libraries.code.calls import Table
from forewarn.monitors.rules.libraries.code.program import Program, named_by, receiver

_DIGESTS = ("hashlib.md5", "hashlib.sha1")
_HASHES = (*_DIGESTS, "hashlib.sha256", "hashlib.sha512", "hashlib.sha224",
           "hashlib.new")  # fmt: skip
_SECRET = re.compile(
    r"pass(word|wd|phrase|code)?$|passw|secret|token|api_?key|private_?key|credential"
    r"|card_?num|(^|_)(pin|otp|cvv|ssn)(_|$)|security_?code",
    re.IGNORECASE,
)
_KEYED = re.compile(
    r"key|token|secret|passw|otp|salt|nonce|session|seed", re.IGNORECASE
)


def _compares_secret(program: Program) -> bool:
    for node in program.all(ast.Compare):
        if isinstance(node, ast.Compare):
            equal = any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops)
            sides = [node.left, *node.comparators]
            secret = any(_SECRET.search(named_by(side)) for side in sides)
            empty = any(isinstance(s, ast.Constant) and not s.value for s in sides)
            if equal and secret and not empty:
                return True
    starts = program.called("?.startswith", "?.endswith")
    return any(_SECRET.search(receiver(call)) for call in starts)


def _holds_secret(program: Program) -> bool:
    """A secret that is written out: assigned, a default, or an argument."""
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
        for call in program.called("print", "logging.info", "logging.debug", "?.info")
        for node in ast.walk(call.node)
    )


def _shows_secret(node: ast.AST) -> bool:
    """A secret by its name, or by what stands before it in a text."""
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
        for call in program.called(
            "random.seed",
            "random.Random",
            "numpy.random.seed",
            "numpy.random.default_rng",
            "torch.manual_seed",
        )  # fmt: skip
    )


def _calls_anything_random(program: Program, node: ast.AST) -> bool:
    named = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    kinds = {program.known.kinds.get(name, "") for name in named}
    calls = {ast.unparse(n.func) for n in ast.walk(node) if isinstance(n, ast.Call)}
    fresh = (
        "time",
        "urandom",
        "secrets",
        "uuid",
        "datetime",
        "entropy",
        "SystemRandom",
    )
    return any(word in each for each in kinds | calls for word in fresh)


def _makes_keys(program: Program) -> bool:
    """Chance that can be foretold, used for what must be secret."""
    draws = any(call.name.startswith("random.") for call in program.calls)
    named = [f.name for f in program.functions()]
    named += [n.id for n in program.nodes if isinstance(n, ast.Name)]
    return draws and any(_KEYED.search(name) for name in named)


def _hashes_secret(program: Program) -> bool:
    """A password that is hashed without salt, by a hash made to be quick."""
    for call in program.called(*_HASHES):
        inside = (node for arg in call.node.args for node in ast.walk(arg))
        if any(_SECRET.search(named_by(node)) for node in inside):
            return True
    return False


SECRETS: Table = {
    "holds_secret": ("A secret is written out in the program.", _holds_secret),
    "prints_secret": ("A secret is printed.", _prints_secret),
    "compares_secret": (
        "A secret is compared in a way whose time tells of it.",
        _compares_secret,
    ),
    "hashes_secret": ("A password is hashed without salt.", _hashes_secret),
    "hashes_weakly": (
        "A hash is used that is broken.",
        lambda p: any(p.called(*_DIGESTS)),
    ),
    "seeds_constant": ("Chance is seeded with a constant.", _seeds_constant),
    "guessable_keys": (
        "Chance that can be foretold makes what must be secret.",
        _makes_keys,
    ),
}
