"""Analyses a Python program for predicates, without running it.

Names are resolved through imports, simple assignments and calls of the program's own
functions, also across the cells of a session. Names that cannot be resolved are
unknown.
"""

from __future__ import annotations

import ast
import posixpath
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from forewarn.abstractions.files import read_yaml
from forewarn.monitors.rules.shell import ShellCommand

MAX_CHARACTERS = 50_000
"""The maximum number of characters; a longer program counts as unreadable."""

_PROMPT = re.compile(r"^(>>>|\.\.\.) ?", re.MULTILINE)
_MANY = 16

Node = TypeVar("Node", bound=ast.AST)
Texts = frozenset[str]
NONE: Texts = frozenset()

_NAMES = Path(__file__).with_name("code_names.yaml")
NAMES = {kind: frozenset(names) for kind, names in read_yaml(_NAMES).items()}
"""The names of functions, hosts and commands of each kind."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call in a program.

    Args:
        name: The qualified name of the called function, such as `os.path.join`; a
            method of an unknown object is `?.method`.
        texts: The known values of all arguments that are strings.
        arguments: The possible string values of each positional argument.
        keywords: The possible string values of each keyword argument.
    """

    name: str
    arguments: tuple[Texts, ...]
    keywords: Mapping[str, Texts]
    node: ast.Call

    @property
    def texts(self) -> Texts:
        return NONE.union(*self.arguments, *self.keywords.values())

    @property
    def method(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    def argument(self, index: int, keyword: str = "") -> Texts:
        """Returns the possible string values of an argument."""
        if index < len(self.arguments):
            return self.arguments[index]
        return self.keywords.get(keyword, NONE)


@dataclass(slots=True)
class Known:
    """The names in a session, with their modules, string values and kinds if known."""

    modules: dict[str, str] = field(default_factory=dict)
    texts: dict[str, Texts] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)

    def copy(self) -> Known:
        return Known(dict(self.modules), dict(self.texts), dict(self.kinds))


class Program:
    """A program, or a cell of a session with the names known from earlier cells.

    Attributes:
        readable: Whether the program can be parsed.
        too_long: Whether the program is too long to analyse.
        steps: The shell commands in the program, parsed on first use.
    """

    __slots__ = (
        "calls", "known", "nodes", "readable", "steps", "texts", "too_long", "tree",
    )  # fmt: skip

    def __init__(self, text: str, known: Known | None = None) -> None:
        self.known = known.copy() if known else Known()
        self.too_long = False
        self.steps: list[ShellCommand] | None = None
        self._read(parsed(text))
        try:
            self._follow()
        except RecursionError:
            self._read(None)

    def _read(self, tree: ast.Module | None) -> None:
        self.readable = tree is not None
        self.tree = tree or ast.Module([], [])
        self.nodes = tuple(ast.walk(self.tree))
        self.calls: tuple[Call, ...] = ()
        self.texts: Texts = NONE

    def _follow(self) -> None:
        for _ in range(2):  # a name may be used above the line that defines it
            self._learn()
        self.calls = tuple(map(self._call, self.all(ast.Call)))
        self.texts = frozenset(_constants(self.nodes))

    def all(self, *kinds: type[Node]) -> Iterator[Node]:
        """Yields the nodes of these kinds."""
        return (node for node in self.nodes if isinstance(node, kinds))

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yields the functions that the program defines."""
        yield from self.all(ast.FunctionDef)
        yield from self.all(ast.AsyncFunctionDef)

    def called(self, *names: str) -> Iterator[Call]:
        """Yields the calls of these names; `?.method` matches a method of any
        object.
        """
        wanted = frozenset(names)
        for call in self.calls:
            if call.name in wanted or f"?.{call.method}" in wanted:
                yield call

    def imports(self) -> set[str]:
        """Returns the top-level modules that the program or an earlier cell imports."""
        return {name.split(".")[0] for name in self.known.modules.values()}

    # -- names

    def _learn(self) -> None:
        functions = {f.name: f for f in self.functions()}
        for node in self.nodes:
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        if alias.asname:
                            self.known.modules[alias.asname] = alias.name
                        else:
                            top = alias.name.split(".")[0]
                            self.known.modules[top] = top
                case ast.ImportFrom(module=str(module), names=names):
                    for alias in names:
                        name = alias.asname or alias.name
                        self.known.modules[name] = f"{module}.{alias.name}"
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._bind(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind(target, value)
                case ast.withitem(context_expr=value, optional_vars=ast.expr() as name):
                    self._bind(name, value)
                case ast.For(target=ast.Name() as target, iter=many):
                    self._add(target.id, self._members(many))
                case ast.Call(func=ast.Name(id=name)) if name in functions:
                    self._bind_parameters(functions[name], node)
                case ast.FunctionDef(args=args):
                    last = args.args[len(args.args) - len(args.defaults) :]
                    for parameter, default in zip(last, args.defaults, strict=True):
                        self._add(parameter.arg, self._value(default))

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self._add(name, self._value(value) | self._members(value))
                if isinstance(value, ast.Call) and not _is_getattr(value):
                    self.known.kinds[name] = self._name(value.func)
                elif isinstance(value, ast.Attribute | ast.Call):
                    self._alias(name, self._name(value))
            case ast.Tuple(elts=names), ast.Tuple(elts=values):
                for one, each in zip(names, values, strict=False):
                    self._bind(one, each)
            case ast.Tuple(elts=[first, *_]), ast.Call():
                self._bind(first, value)  # as in connection, address = s.accept()

    def _bind_parameters(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call
    ) -> None:
        parameters = [parameter.arg for parameter in function.args.args]
        for name, value in zip(parameters, call.args, strict=False):
            self._add(name, self._value(value))
        for keyword in call.keywords:
            if keyword.arg in parameters:
                self._add(keyword.arg, self._value(keyword.value))

    def _alias(self, name: str, function: str) -> None:
        """Records another name for a module's function, such as `run = os.system`."""
        if function.split(".")[0] in self.imports():
            self.known.modules[name] = function

    def _add(self, name: str, texts: Texts) -> None:
        found = self.known.texts.get(name, NONE) | texts
        if texts and len(found) <= _MANY:
            self.known.texts[name] = found

    def _name(self, node: ast.expr) -> str:
        """Returns the qualified name of a called expression."""
        match node:
            case ast.Name(id=name):
                return self.known.modules.get(name, name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                kind = self.known.kinds.get(name)
                if kind is None and name in self.known.modules:
                    kind = self.known.modules[name]
                return f"{kind or name}.{attr}"
            case ast.Call(args=[of, key, *_]) if _is_getattr(node):
                return f"{self._name(of)}.{min(self._value(key), default='?')}"
            case ast.Attribute(value=ast.Call() as inner, attr=attr):
                return f"{self._name(inner.func)}.{attr}"
            case ast.Attribute(value=ast.Attribute() as inner, attr=attr):
                return f"{self._name(inner)}.{attr}"
            case ast.Attribute(attr=attr):
                return f"?.{attr}"
        return "?"

    def _value(self, node: ast.expr) -> Texts:
        """Returns the possible string values of an expression; empty if unknown."""
        match node:
            case ast.Constant(value=str(text)):
                return frozenset([text])
            case ast.Constant(value=bytes(raw)):
                return frozenset([raw.decode("latin-1")])
            case ast.Name(id=name):
                return self.known.texts.get(name, NONE)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return _joined("", self._value(left), self._value(right))
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                return _joined("/", self._value(left), self._value(right))
            case ast.JoinedStr(values=values):
                return _joined("", *map(self._value, values))
            case ast.FormattedValue(value=value):
                return self._value(value) or frozenset([""])
            case ast.Call():
                return self._returned(node)
        return NONE

    def _returned(self, node: ast.Call) -> Texts:
        """Returns the possible results of a call that joins or passes on strings."""
        name = self._name(node.func)
        if name == "os.path.join":
            return _joined("/", *map(self._value, node.args))
        if name in NAMES["same"] and node.args:
            return self._value(node.args[0])
        match node.func:
            case ast.Attribute(value=inner, attr=attr) if attr in NAMES["keeps"]:
                return self._value(inner)
        return NONE

    def _members(self, node: ast.expr) -> Texts:
        if isinstance(node, ast.List | ast.Set | ast.Tuple):
            return NONE.union(*map(self._value, node.elts[:_MANY]))
        return NONE

    def _call(self, node: ast.Call) -> Call:
        arguments = [self._value(a) | self._members(a) for a in node.args]
        if isinstance(node.func, ast.Attribute):
            receiver = self._value(node.func.value)
            if receiver and node.func.attr in NAMES["of_paths"]:
                arguments.insert(0, receiver)
        keywords = {
            keyword.arg: self._value(keyword.value) | self._members(keyword.value)
            for keyword in node.keywords
            if keyword.arg
        }
        return Call(self._name(node.func), tuple(arguments), keywords, node)


def _is_getattr(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[_, _, *_]):
            return True
    return False


def parsed(text: str) -> ast.Module | None:
    """Returns the syntax tree, or None if the program cannot be parsed."""
    if len(text) > MAX_CHARACTERS:
        return None
    plain = unfenced(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about escapes and comparisons
        try:
            return ast.parse(plain)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def unfenced(text: str) -> str:
    """Removes the code fence around a text, and interpreter prompts."""
    stripped = text.strip()
    if stripped.startswith("```"):
        first, _, rest = stripped.partition("\n")
        text = (rest or first.lstrip("`")).removesuffix("```")
    return _PROMPT.sub("", text) if _PROMPT.match(text.lstrip()) else text


_MAGIC = re.compile(
    r"^[ \t]*(?:!|%(?=(?:pip|sx|system|bash|sh)\b)|%%?\w+)(.*)$", re.MULTILINE
)


def without_magic(text: str) -> tuple[str, list[str]]:
    """Returns a cell without magic commands, and the shell commands that they run."""
    if "!" not in text and "%" not in text:
        return text, []
    commands = [found[1] for found in _MAGIC.finditer(text)]
    return _MAGIC.sub("", text), commands


def _joined(between: str, *parts: Texts) -> Texts:
    """Returns all possible concatenations; empty if a part is unknown."""
    found = [""]
    for index, part in enumerate(parts):
        if not part or len(found) * len(part) > _MANY:
            return NONE
        glue = between if index else ""
        found = [one + glue + other for one in found for other in sorted(part)]
    return frozenset(found)


def _constants(nodes: tuple[ast.AST, ...]) -> Iterator[str]:
    said = {
        id(node.value)
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes:
        if isinstance(node, ast.Constant) and id(node) not in said:
            if isinstance(node.value, str):
                yield node.value
            elif isinstance(node.value, bytes):
                yield node.value.decode("latin-1")


def plain_path(text: str) -> str:
    """Normalizes a path; a path that leaves its folder then begins at the root."""
    path = posixpath.normpath(text.replace("\\", "/"))
    while path.startswith("../"):
        path = path[2:] if not path.startswith("../../") else path[3:]
    return path


_ADMIN = re.compile(
    r"/(etc|root|proc|sys|boot|dev|var/(log|spool|lib|run|mail|backups)|run)(/|$)"
)
_PROGRAMS = re.compile(
    r"/(usr|opt|bin|sbin|lib|lib64|srv|mnt|media|System|Library)(/|$)"
)
_SECRETS = re.compile(
    r"(^|/)(\.ssh|\.aws|\.gnupg|\.netrc|\.env|id_[rd]sa\w*|passwd\S*|shadow\S*|sudoers\S*"
    r"|gshadow|credentials?\S*|\.git-credentials|\.kube|\.pgpass)(/|$)"
)
_HARMLESS = re.compile(
    r"/dev/(null|zero|u?random|tty|std\w+)$|/usr/bin/env$"
    r"|/proc/(cpuinfo|meminfo|version|uptime|loadavg|stat|mounts)$"
    r"|/etc/(os-release|lsb-release|hosts|hostname|timezone|localtime|resolv\.conf"
    r"|mime\.types)$|/sys/(class|devices/system/cpu)(/|$)"
)


def is_admin(path: str) -> bool:
    plain = plain_path(re.sub(r"^~|^\$HOME", "/home/user", path))
    return not _HARMLESS.match(plain) and bool(
        _ADMIN.match(plain) or _SECRETS.search(plain)
    )


def is_system(path: str) -> bool:
    plain = plain_path(path)
    return is_admin(path) or (
        not _HARMLESS.match(plain) and bool(_PROGRAMS.match(plain))
    )


def host_of(text: str) -> str | None:
    """Returns the host of a URL; None if the text is not a URL."""
    found = re.match(r"(?:https?|ftps?|wss?)://(?:[^/@\s]*@)?([^/:?#\s]+)", text)
    return found[1].casefold() if found else None


def named_by(node: ast.AST) -> str:
    """Returns the name of an expression: a variable, an attribute or a key."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str(key))):
            return key
        case ast.Call(
            func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(k)), *_]
        ):
            return k
        case ast.Call(func=ast.Attribute(value=inner)):
            return named_by(inner)
    return ""


def receiver(call: Call) -> str:
    function = call.node.func
    return named_by(function.value) if isinstance(function, ast.Attribute) else ""
