"""Predicates about a program's calls: files, networks, commands and processes."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from forewarn.monitors.rules import code_shell
from forewarn.monitors.rules.code_program import (
    NAMES,
    NONE,
    Call,
    Program,
    Texts,
    host_of,
    is_admin,
    is_system,
)
from forewarn.monitors.rules.shell import ShellCommand, steps_of

Asked = Callable[[Program], bool]
Table = Mapping[str, Asked]
"""Predicates by name; `plain.yaml` describes when each is true."""


def calls(program: Program, *kinds: str) -> Iterator[Call]:
    """Yields the program's calls of these kinds."""
    return program.called(*(name for kind in kinds for name in NAMES[kind]))


def calling(*kinds: str) -> Asked:
    return lambda program: any(calls(program, *kinds))


fetches = calling("fetches")


def posts(program: Program) -> bool:
    urllib = program.called("urllib.request.urlopen", "urllib.request.Request")
    return (
        any(calls(program, "posts"))
        or any(map(_gives_data, urllib))
        or any(
            {"POST", "PUT"} & call.argument(0, "method")
            for call in program.called("?.request", "urllib.request.Request")
        )
    )


def _gives_data(call: Call) -> bool:
    """Whether a urllib request has a body."""
    given = [k.value for k in call.node.keywords if k.arg == "data"]
    given += call.node.args[1:2]
    return any(not isinstance(each, ast.Constant) or each.value for each in given)


def opens(program: Program) -> Iterator[tuple[Texts, str]]:
    """Yields the opened paths, each with its mode: `r`, `w`, `a` or `x`."""
    for call in calls(program, "opens"):
        modes = call.argument(1, "mode")
        wrote = sorted(m[0] for m in modes if m and m[0] in "wax")
        yield call.argument(0, "file"), wrote[0] if wrote else "r"
    for call in program.called("?.read_text", "?.read_bytes"):
        yield call.argument(0), "r"
    for call in program.called("?.write_text", "?.write_bytes", "?.touch"):
        yield call.argument(0), "w"
    for call in program.called("urllib.request.urlretrieve", "wget.download"):
        yield call.argument(1, "filename"), "w"


def reads(program: Program) -> bool:
    return any(mode == "r" for _, mode in opens(program))


def writes(program: Program) -> bool:
    return any(mode != "r" for _, mode in opens(program))


def commands(program: Program) -> str:
    """Returns the text of all shell commands."""
    found: list[str] = []
    for call in calls(program, "shells"):
        words = _words(call)
        if words:
            parts = [w.value if isinstance(w, ast.Constant) else "" for w in words]
            found.append(shlex.join(map(str, parts)))
        else:
            found += sorted(call.texts)
    return "\n".join(found)


def _words(call: Call) -> Sequence[ast.expr]:
    """Returns the program and its arguments, if a call lists them."""
    replaces = call.name.startswith(("os.exec", "os.spawn", "os.posix_spawn"))
    match call.node.args[_mode(call) :]:
        case [ast.List(elts=words) | ast.Tuple(elts=words), *_]:
            return words
        case [path, ast.List(elts=words) | ast.Tuple(elts=words), *_] if replaces:
            return [path, *words[1:]]
        case [path, _, *words] if replaces:
            return [path, *words]
    return ()


def _mode(call: Call) -> int:
    """Returns the position of the program's path: `os.spawn…` has a mode before it."""
    return int(call.name.startswith("os.spawn"))


def steps(program: Program) -> list[ShellCommand]:
    """Returns the parsed shell commands of a program."""
    if program.steps is None:
        program.steps = steps_of(commands(program))
    return program.steps


def _stepping(asked: Callable[[list[ShellCommand]], bool]) -> Asked:
    return lambda program: asked(steps(program))


def _runs_unknown(program: Program) -> bool:
    """Whether a shell runs text that is not a literal in the program."""
    return any(
        call.node.args and not call.argument(_mode(call))
        for call in calls(program, "shells")
    )


def _evaluates_import(program: Program) -> bool:
    """Whether the program evaluates text that accesses modules or the shell."""
    reaching = re.compile(r"__import__|\bimport\b|os\.|subprocess|open\(|system\(")
    calls = program.called("eval", "exec", "compile")
    return any(reaching.search(text) for call in calls for text in call.texts)


def _encodes_program(program: Program) -> bool:
    reaching = re.compile(r"\bimport\s+\w+|os\.system|subprocess|eval\(|exec\(|print\(")
    texts = {text for call in calls(program, "encodes") for text in call.texts}
    return any(reaching.search(text) for text in texts)


def _by_shell(call: Call) -> bool:
    return any(
        k.arg == "shell" and isinstance(k.value, ast.Constant) and k.value.value is True
        for k in call.node.keywords
    )


_RIGHTS = r"_?\w{0,12}(priv|right|root|admin|permission|sudo)"
_TAKES_ON = re.compile(
    rf"(raise|elevate|escalate|gain|acquire|become|assume|enable){_RIGHTS}"
    r"|^sete?[ug]id$",
    re.IGNORECASE,
)
_GIVES_BACK = re.compile(
    rf"(lower|drop|restore|release|revoke|relinquish|disable|reset){_RIGHTS}"
    r"|^sete?[ug]id$",
    re.IGNORECASE,
)


def _keeps_rights(program: Program) -> bool:
    """Whether privileges are raised and not reliably dropped again."""
    takes = any(_TAKES_ON.search(call.method) for call in program.calls)
    guarded = (
        node
        for each in program.all(ast.Try)
        for last in each.finalbody
        for node in ast.walk(last)
    )
    return takes and not any(_GIVES_BACK.search(_called(node)) for node in guarded)


def _called(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def _is_native(call: Call) -> bool:
    loads = ("CDLL", "WinDLL", "PyDLL", "LoadLibrary", "dlopen")
    return call.method in loads or call.name.startswith(
        ("ctypes.cdll", "ctypes.windll", "ctypes.pythonapi")
    )


def _spawns(program: Program) -> bool:
    makers = ("os.fork", "multiprocessing.Process", "threading.Thread")
    loops = (*program.all(ast.While), *program.all(ast.For))
    return any(
        program._name(node.func) in makers
        for loop in loops
        for node in ast.walk(loop)
        if isinstance(node, ast.Call)
    )


RUNNING: Table = {
    "runs_command": calling("shells"),
    "runs_shell": lambda p: (
        any(p.called("os.system", "os.popen"))
        or any(map(_by_shell, calls(p, "shells")))
    ),
    "runs_unknown": _runs_unknown,
    "command_fetches": _stepping(code_shell.fetches_by),
    "changes_rights": lambda p: (
        code_shell.changes_rights(steps(p)) or any(calls(p, "changes_rights"))
    ),
    "keeps_rights": _keeps_rights,
    "installs_foreign": _stepping(code_shell.installs_foreign),
    "runs_fetched": _stepping(code_shell.runs_fetched),
    "runs_hidden": _stepping(code_shell.runs_hidden),
    "spawns_terminal": calling("terminals"),
    "calls_native": lambda p: any(map(_is_native, p.calls)),
    "hides_traces": lambda p: code_shell.hides_traces(commands(p), steps(p)),
    "kills": lambda p: any(calls(p, "kills")) or code_shell.kills(steps(p)),
    "kills_others": lambda p: (
        (any(calls(p, "kills")) and "psutil" in p.imports())
        or any(p.called("os.kill", "os.killpg"))
        or code_shell.kills(steps(p))
    ),
    "spawns_in_loop": lambda p: _spawns(p) or code_shell.forks_endlessly(commands(p)),
    "evaluates": calling("evaluates"),
    "evaluates_reaching": _evaluates_import,
    "unpacks_objects": calling("unpacks"),
    "encodes": calling("encodes"),
    "decodes": calling("decodes"),
    "encodes_program": _encodes_program,
    "round_trips": lambda p: (
        any(calls(p, "decodes"))
        and any((*p.called("json.loads"), *calls(p, "unpacks", "evaluates")))
    ),
    "watches_machine": lambda p: (
        bool(p.imports() & NAMES["watchers"]) or any(calls(p, "watches"))
    ),
}


_STARTUP = re.compile(
    r"(^|/)(\.bashrc|\.bash_profile|\.profile|\.zshrc|\.bash_aliases|bash\.bashrc"
    r"|rc\.local|crontab|cron\.\w+|authorized_keys|autostart|systemd)(/|$)"
)
SCRIPT = re.compile(r"\.(py|pyw|sh|bash|bat|ps1|rb|pl|js|exe|so|dll|cmd|vbs)$")


def _read(program: Program) -> Texts:
    opened = NONE.union(*(paths for paths, mode in opens(program) if mode == "r"))
    return opened | set(code_shell.read_by(steps(program)))


def _written(program: Program) -> Texts:
    opened = NONE.union(*(paths for paths, mode in opens(program) if mode != "r"))
    return opened | set(code_shell.written_by(steps(program)))


def _changed(program: Program) -> Texts:
    """Returns paths that are deleted or moved, or whose permissions or owner change."""
    changed = calls(program, "deletes", "copies", "changes")
    texts = NONE.union(*(call.texts for call in changed))
    return texts | set(code_shell.changed_by(steps(program)))


def _beyond(kind: str) -> Asked:
    """Returns a test for calls of a kind with a path outside the user's own folders."""
    return lambda program: any(
        is_system(text) for call in calls(program, kind) for text in call.texts
    )


FILES: Table = {
    "reads_file": reads,
    "reads_admin_file": lambda p: any(map(is_admin, _read(p))),
    "reads_system_file": lambda p: any(map(is_system, _read(p))),
    "writes_file": writes,
    "writes_system_file": lambda p: any(map(is_system, _written(p))),
    "writes_program": lambda p: any(map(SCRIPT.search, _written(p))),
    "writes_startup_file": lambda p: (
        any(map(_STARTUP.search, _written(p) | _changed(p)))
        or code_shell.schedules(steps(p))
    ),
    "copies": calling("copies"),
    "copies_system_file": _beyond("copies"),
    "lists": calling("lists"),
    "lists_system_folder": _beyond("lists"),
    "climbs_out": lambda p: any(
        "../" in text for text in _read(p) | _written(p) | _changed(p)
    ),
    "deletes": lambda p: any(calls(p, "deletes")) or code_shell.deletes(steps(p)),
    "deletes_tree": lambda p: (
        any(p.called("shutil.rmtree")) or code_shell.deletes_widely(steps(p))
    ),
    "changes_system": lambda p: any(map(is_system, _changed(p))),
    "touches_system": lambda p: any(
        text.startswith("/") and is_system(text) for text in p.texts
    ),
}


_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1")


def hosts(program: Program) -> set[str]:
    return {host for text in program.texts if (host := host_of(text))}


def _is_safe(host: str) -> bool:
    return any(
        host == safe or host.endswith(f".{safe}") for safe in NAMES["safe_hosts"]
    )


def _amplifies(program: Program) -> bool:
    """Whether data is multiplied by 1000 or more and sent."""
    factors: list[ast.expr] = []
    for node in program.nodes:
        match node:
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                factors += (left, right)
            case ast.AugAssign(op=ast.Mult(), value=value):
                factors.append(value)
            case ast.Call(func=ast.Name(id="range"), args=bounds):
                factors += bounds
    numbers = (each.value for each in factors if isinstance(each, ast.Constant))
    large = any(isinstance(each, int) and each >= 1000 for each in numbers)
    return large and posts(program)


def _sends_environment(program: Program) -> bool:
    """Whether the program reads the whole environment and sends something."""
    if code_shell.sends_environment(steps(program)):
        return True
    parts = {
        id(node.value)
        for node in program.nodes
        if isinstance(node, ast.Subscript)
        or (isinstance(node, ast.Attribute) and node.attr in ("get", "setdefault"))
    }
    asked = (ast.walk(call.node) for call in calls(program, "fetches"))
    return any(
        isinstance(node, ast.Attribute | ast.Name)
        and isinstance(node.ctx, ast.Load)
        and program._name(node) == "os.environ"
        and id(node) not in parts
        for node in (program.nodes if posts(program) else chain.from_iterable(asked))
    )


def _redirects(program: Program) -> bool:
    """Whether a shell is connected to a socket."""
    if code_shell.ties_shell(steps(program)):
        return True
    sockets = "socket" in program.imports()
    ties = any(program.called("os.dup2", "pty.spawn"))
    runs = any(calls(program, "shells", "evaluates"))
    receives = any(program.called("?.recv", "?.recvfrom", "?.makefile"))
    return sockets and (ties or (runs and receives))


NETWORK: Table = {
    "fetches": fetches,
    "posts": posts,
    "posts_file": lambda p: posts(p) and reads(p),
    "sends_environment": _sends_environment,
    "fetches_plainly": lambda p: (
        fetches(p)
        and any(
            text.startswith("http://") and not _LOCAL.match(host_of(text) or "")
            for text in p.texts
        )
    ),
    "fetches_unlisted": lambda p: fetches(p) and not all(map(_is_safe, hosts(p))),
    "saves_fetched": lambda p: fetches(p) and writes(p),
    "fetches_program": lambda p: (
        fetches(p)
        and any(host_of(t) and SCRIPT.search(t.split("?")[0]) for t in p.texts)
    ),
    "opens_socket": calling("sockets"),
    "listens": calling("listens"),
    "ties_shell_to_socket": _redirects,
    "amplifies": _amplifies,
}
