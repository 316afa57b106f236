"""Predicates about shell commands that a tool or a program runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename

from forewarn.monitors.rules.code_program import NAMES, is_system, plain_path
from forewarn.monitors.rules.shell import INTERPRETERS, SHELLS, ShellCommand

_NETWORK = NAMES["shell_fetchers"] | NAMES["shell_senders"]
_SENDS = re.compile(
    r"(^| )(-[a-zA-Z]*[dFT]\S*|--(data|form|upload|post|body)\S*|--method=p\S+)",
    re.IGNORECASE,
)
_WIDE_MODE = re.compile(r"[0-7]?[2367][0-7]{0,2}[2367]$|[2-7][0-7]{3}$|[ugoa]*\+\w*s")
_FOREIGN = re.compile(
    r"(git\+|https?://|--(extra-)?index-url|--trusted-host|-i$|--registry|ppa:)"
)
_APART = r"""\s;|&(){}<>"'`"""
# Matches are bounded and start once per word, so the time stays linear.
_FORKS = re.compile(
    rf"(?<![^{_APART}])([^{_APART}]{{1,64}})\s*\(\)\s*\{{(?=[^}}]{{0,999}}\1\s*\|\s*\1)"
)
_HISTORY = re.compile(r"\.(bash|zsh)_history|HISTFILE|HISTSIZE=0")
_DEVICE = re.compile(r"/dev/(sd|hd|vd|nvme|mmcblk|mem|kmem)")


def fetches_by(steps: list[ShellCommand]) -> bool:
    return any(step.name in _NETWORK for step in steps)


def _is_run(step: ShellCommand) -> bool:
    """Whether a step executes its input."""
    runs = step.name in SHELLS or INTERPRETERS.match(step.name) is not None
    return runs or step.name in ("eval", "source", ".", "$()")


def _given(step: ShellCommand) -> list[ShellCommand]:
    """Returns the steps that provide a step's input, by a pipe or a substitution."""
    return [*step.before(), *step.inside]


def _decodes(step: ShellCommand) -> bool:
    base = r" -\w*[dD]| --dec"
    how = {"base64": base, "base32": base, "xxd": " -r", "openssl": " -d( |$)"}
    return re.search(how.get(step.name, "(?!)"), f" {step.options}") is not None


def runs_fetched(steps: list[ShellCommand]) -> bool:
    """Whether fetched text is run, directly or from the file in which it was saved."""
    saved, runnable = set[str](), set[str]()
    for step in steps:
        if step.name and step.name in runnable:
            return True
        if _is_run(step) and (
            saved.intersection(map(basename, step.arguments[:1]))
            or any(each.name in _NETWORK for each in _given(step))
        ):
            return True
        if step.name in NAMES["shell_fetchers"]:
            saved.update(map(basename, (*step.words[1:], *step.writes)))
        elif step.name == "chmod":
            runnable.update(saved.intersection(map(basename, step.arguments)))
    return False


def runs_hidden(steps: list[ShellCommand]) -> bool:
    return any(_is_run(step) and any(map(_decodes, _given(step))) for step in steps)


def sends(step: ShellCommand) -> bool:
    """Whether a step sends something over the network."""
    posts = any(word in ("POST", "PUT", "PATCH") for word in step.words)
    if step.name in NAMES["shell_fetchers"]:
        return posts or _SENDS.search(f" {step.options}") is not None
    return step.name in NAMES["shell_senders"]


def sends_environment(steps: list[ShellCommand]) -> bool:
    dumps = ("env", "printenv", "set", "export")
    return any(
        sends(step) and any(not e.arguments and e.name in dumps or "env" in e.carriers
                            and not e.words for e in _given(step))
        for step in steps
    )  # fmt: skip


def ties_shell(steps: list[ShellCommand]) -> bool:
    """Whether a shell is connected to the network."""
    for step in steps:
        if any("/dev/tcp/" in each for each in (*step.writes, *step.reads)):
            return True
        words = " ".join(step.words[1:]).casefold()
        runs = re.search(r"(^| )-\w*[ec]\w* ", f"{words} ")
        if step.name in ("nc", "ncat", "netcat") and runs and "sh" in words:
            return True
        if step.name == "socat" and "exec:" in words:
            return True
    return False


def read_by(steps: list[ShellCommand]) -> Iterator[str]:
    """Yields the paths that steps read."""
    for step in steps:
        yield from step.reads
        if step.name in NAMES["shell_readers"]:
            for word in step.arguments:
                yield word.removeprefix("if=").lstrip("@")
        if sends(step):
            for word in step.words:
                yield word.rpartition("@")[2]


def written_by(steps: list[ShellCommand]) -> Iterator[str]:
    """Yields the paths that steps write."""
    for step in steps:
        yield from step.writes
        if step.name in ("tee", "touch", "mkdir", "truncate"):
            yield from step.arguments
        elif step.name in ("cp", "mv", "ln", "install") and step.arguments:
            yield step.arguments[-1]
        elif step.name == "sed" and "-i" in step.options:
            yield from step.arguments[1:]
        elif step.name == "dd":
            yield from (w[3:] for w in step.words if w.startswith("of="))


def changed_by(steps: list[ShellCommand]) -> Iterator[str]:
    """Yields the paths that steps delete, or whose permissions they change."""
    for step in steps:
        if step.name in ("rm", "rmdir", "shred", "unlink", "chmod", "chown"):
            yield from step.arguments


def schedules(steps: list[ShellCommand]) -> bool:
    """Whether a command is scheduled to run later."""
    return any(
        (step.name == "crontab" and "-l" not in step.options)
        or step.name in ("at", "batch")
        or (step.name == "systemctl" and "enable" in step.words)
        for step in steps
    )


def deletes(steps: list[ShellCommand]) -> bool:
    return any(
        step.name in ("rm", "rmdir", "shred", "unlink")
        or (step.name == "find" and "-delete" in step.words)
        for step in steps
    )


def deletes_widely(steps: list[ShellCommand]) -> bool:
    """Whether a deletion is irrecoverable, or covers the root, a home folder or the
    whole current folder.
    """
    for step in steps:
        name = step.name
        if name == "shred" or name.startswith("mkfs"):
            return True
        if any(_DEVICE.match(path) for path in written_by([step])):
            return True
        recursive = re.search(r"-\w*[rR]", step.options)
        if name == "rm" and recursive and any(map(_is_wide, step.arguments)):
            return True
        if name == "find" and "-delete" in step.words:
            if any(map(_is_wide, step.arguments[:1])):
                return True
    return False


def _is_wide(path: str) -> bool:
    """Whether a path is the root, a home folder, or everything in the current
    folder.
    """
    if path in ("*", ".", "./", "..", "./*") or path[:1] in ("~", "$") or ".." in path:
        return True
    whole = plain_path(path)
    return path.startswith("/") and len(whole.rstrip("*").strip("/").split("/")) < 2


def _installed(steps: list[ShellCommand]) -> Iterator[list[str]]:
    """Yields the arguments of each installer, including options."""
    for step in steps:
        words = step.words
        if INTERPRETERS.match(step.name) and words[1:3] == ["-m", "pip"]:
            words = words[2:]
        installs = {"install", "add"} & set(words[1:])
        if installs and words[0] in NAMES["shell_installers"]:
            verb = "install" if "install" in words else "add"
            yield words[words.index(verb) + 1 :]


def installs_foreign(steps: list[ShellCommand]) -> bool:
    """Whether software is installed from a source other than the default."""
    return any(_FOREIGN.match(word) for asked in _installed(steps) for word in asked)


def changes_rights(steps: list[ShellCommand]) -> bool:
    return any(
        step.name in NAMES["shell_rights"]
        or bool({"sudo", "doas"} & set(step.carriers))
        or (step.name == "chmod" and _opens_up(step.arguments))
        for step in steps
    )


def _opens_up(given: list[str]) -> bool:
    """Whether a change of permissions lets everyone write a file or run it as its
    owner, or affects a system file.
    """
    wide = any(_WIDE_MODE.match(mode) for mode in given[:1])
    return wide or any(map(is_system, given[1:]))


def kills(steps: list[ShellCommand]) -> bool:
    return any(
        step.name in NAMES["shell_kills"]
        or (step.name == "systemctl" and {"stop", "disable", "kill"} & set(step.words))
        for step in steps
    )


def hides_traces(text: str, steps: list[ShellCommand]) -> bool:
    """Whether the command history is erased."""
    clears = any(step.name == "history" and "-c" in step.options for step in steps)
    touched = (*written_by(steps), *changed_by(steps))
    return clears or "HISTFILE=" in text or any(map(_HISTORY.search, touched))


def forks_endlessly(text: str) -> bool:
    return _FORKS.search(text) is not None
