"""Hazards of programs that run commands, text, or other processes."""

from __future__ import annotations

import ast
import re

from forewarn.monitors.rules.libraries.code.calls import (
    DECODES,
    ENCODES,
    EVALUATES,
    KILLS,
    SHELLS,
    UNPACKS,
    Asked,
    Table,
)
from forewarn.monitors.rules.libraries.code.program import Call, Program

_WATCHERS = frozenset(
    "psutil pyperclip watchdog pynput pyautogui mss clipboard keyboard pyscreenshot"
    " inotify GPUtil pyinotify scapy pyshark".split()
)
_WATCHES = ("PIL.ImageGrab.grab", "os.getloadavg", "resource.getrusage",
            "tkinter.Tk.clipboard_get", "?.clipboard_get")  # fmt: skip
COMMAND_DELETES = re.compile(
    r"\brm\s+-|\brmdir\b|\bshred\b|\bmkfs|\bdd\s+.{0,200}of=|\bdel\s"
)
_COMMAND_INSTALLS = re.compile(
    r"\b(pip3?|apt(-get)?|yum|dnf|npm|conda|brew|gem|snap)\s+(\S{1,80}\s+){0,6}?install\b"
)
_COMMAND_FETCHES = re.compile(r"\b(curl|wget|nc|ncat|telnet|ssh|scp|ftp)\s")
_COMMAND_RIGHTS = re.compile(
    r"\b(sudo|su|chmod|chown|chattr|setcap|visudo|usermod|passwd)\s"
)
_COMMAND_KILLS = re.compile(r"\b(kill|pkill|killall|shutdown|reboot|halt|systemctl)\b")


def commands(program: Program) -> str:
    """What is given to shells, in one text."""
    found: list[str] = []
    for call in program.called(*SHELLS):
        listed = call.node.args and isinstance(call.node.args[0], ast.List | ast.Tuple)
        if listed:
            parts = [
                part.value if isinstance(part, ast.Constant) else ""
                for part in call.node.args[0].elts  # type: ignore[attr-defined]
            ]
            found.append(" ".join(str(part) for part in parts))
        else:
            found += sorted(call.texts)
    return "\n".join(found)


def says(pattern: re.Pattern[str]) -> Asked:
    return lambda program: bool(pattern.search(commands(program)))


def _runs_unknown(program: Program) -> bool:
    """A shell is given what is not written in the program."""
    return any(
        call.node.args and not call.argument(0) for call in program.called(*SHELLS)
    )


def _evaluates_import(program: Program) -> bool:
    """Text is evaluated that reaches for modules or the shell."""
    reaching = re.compile(r"__import__|\bimport\b|os\.|subprocess|open\(|system\(")
    calls = program.called("eval", "exec", "compile")
    return any(reaching.search(text) for call in calls for text in call.texts)


def _encodes_program(program: Program) -> bool:
    reaching = re.compile(r"\bimport\s+\w+|os\.system|subprocess|eval\(|exec\(|print\(")
    calls = program.called(*ENCODES)
    texts = {text for call in calls for text in call.texts}
    return any(reaching.search(text) for text in texts)


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _keyword(call: Call, name: str) -> ast.expr | None:
    return next((k.value for k in call.node.keywords if k.arg == name), None)


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
    """Rights are taken on, and nothing gives them back whatever happens."""
    takes = any(_TAKES_ON.search(call.method) for call in program.calls)
    guarded = (
        node
        for each in program.all(ast.Try)
        if isinstance(each, ast.Try)
        for last in each.finalbody
        for node in ast.walk(last)
    )
    return takes and not any(_GIVES_BACK.search(_called(node)) for node in guarded)


def _called(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name
    return ""


def _spawns(program: Program) -> bool:
    makers = ("os.fork", "multiprocessing.Process", "threading.Thread")
    loops = program.all(ast.While, ast.For)
    return any(
        program._name(node.func) in makers
        for loop in loops
        for node in ast.walk(loop)
        if isinstance(node, ast.Call)
    )


RUNNING: Table = {
    "runs_command": ("A command is run.", lambda p: any(p.called(*SHELLS))),
    "runs_shell": (
        "A shell is run, which reads its command as a program.",
        lambda p: (
            any(p.called("os.system", "os.popen"))
            or any(_is_true(_keyword(call, "shell")) for call in p.called(*SHELLS))
        ),
    ),
    "runs_unknown": ("A command is run that is not in the program.", _runs_unknown),
    "installs": (
        "Software is installed.",
        lambda p: says(_COMMAND_INSTALLS)(p) or any(p.called("pip.main")),
    ),
    "command_fetches": (
        "A command reaches over the network.",
        says(_COMMAND_FETCHES),
    ),
    "changes_rights": (
        "Somebody's rights are changed, or the program takes on others.",
        lambda p: (
            says(_COMMAND_RIGHTS)(p)
            or any(
                p.called(
                    "os.chmod",
                    "os.chown",
                    "os.setuid",
                    "os.setgid",
                    "?.chmod",
                    "os.seteuid",
                    "os.umask",
                )
            )
        ),
    ),
    "keeps_rights": (
        "Rights are taken on, and an error on the way leaves them on.",
        _keeps_rights,
    ),
    "kills": (
        "A process is ended.",
        lambda p: any(p.called(*KILLS)) or says(_COMMAND_KILLS)(p),
    ),
    "kills_others": (
        "Processes that the program did not start are ended.",
        lambda p: (
            (any(p.called(*KILLS)) and "psutil" in p.imports())
            or any(p.called("os.kill", "os.killpg"))
            or says(_COMMAND_KILLS)(p)
        ),
    ),
    "spawns_in_loop": ("Processes or threads are started in a loop.", _spawns),
    "evaluates": (
        "Text is run as a program.",
        lambda p: any(p.called(*EVALUATES)),
    ),
    "evaluates_reaching": (
        "Text is run that reaches for modules, files or the shell.",
        _evaluates_import,
    ),
    "unpacks_objects": (
        "Objects are read in a form that can run code.",
        lambda p: any(p.called(*UNPACKS)),
    ),
    "encodes": ("Something is encoded.", lambda p: any(p.called(*ENCODES))),
    "decodes": ("Something is decoded.", lambda p: any(p.called(*DECODES))),
    "encodes_program": ("A program is encoded, which hides it.", _encodes_program),
    "round_trips": (
        "Something is encoded and decoded again, or decoded and read as an object.",
        lambda p: (
            any(p.called(*DECODES))
            and any(p.called("json.loads", *UNPACKS, *EVALUATES))
        ),
    ),
    "watches_machine": (
        "The machine, its screen, keys or clipboard are watched.",
        lambda p: bool(p.imports() & _WATCHERS) or any(p.called(*_WATCHES)),
    ),
}
