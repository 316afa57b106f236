"""Hazards of programs that touch files, and whose files they are."""

from __future__ import annotations

import re

from forewarn.monitors.rules.libraries.code.calls import (
    COPIES,
    DELETES,
    LISTS,
    Table,
    opens,
    writes,
)
from forewarn.monitors.rules.libraries.code.program import (
    NONE,
    Program,
    Texts,
    plain_path,
)
from forewarn.monitors.rules.libraries.code.running import COMMAND_DELETES, says

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
_STARTUP = re.compile(
    r"(^|/)(\.bashrc|\.bash_profile|\.profile|\.zshrc|\.bash_aliases|bash\.bashrc"
    r"|rc\.local|crontab|cron\.\w+|authorized_keys|autostart|systemd)(/|$)"
)
_HARMLESS = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/usr/bin/env"))
SCRIPT = re.compile(r"\.(py|pyw|sh|bash|bat|ps1|rb|pl|js|exe|so|dll|cmd|vbs)$")


def _is_admin(path: str) -> bool:
    plain = plain_path(path)
    return plain not in _HARMLESS and bool(
        _ADMIN.match(plain) or _SECRETS.search(plain)
    )


def _is_system(path: str) -> bool:
    plain = plain_path(path)
    return _is_admin(path) or (plain not in _HARMLESS and bool(_PROGRAMS.match(plain)))


def _read(program: Program) -> Texts:
    return NONE.union(*(paths for paths, mode in opens(program) if mode == "r"))


def _written(program: Program) -> Texts:
    return NONE.union(*(paths for paths, mode in opens(program) if mode != "r"))


def _changed(program: Program) -> Texts:
    """The paths that are deleted, moved, or given other rights or owners."""
    changes = (*DELETES, *COPIES, "os.chmod", "os.chown", "os.truncate", "?.chmod",
               "os.mkdir", "os.makedirs")  # fmt: skip
    return NONE.union(*(call.texts for call in program.called(*changes)))


FILES: Table = {
    "reads_file": (
        "A file is read.",
        lambda p: any(mode == "r" for _, mode in opens(p)),
    ),
    "reads_admin_file": (
        "A file of the system's administration is read, or one with secrets.",
        lambda p: any(map(_is_admin, _read(p))),
    ),
    "reads_system_file": (
        "A file outside the user's own folders is read.",
        lambda p: any(map(_is_system, _read(p))),
    ),
    "writes_file": ("A file is written.", writes),
    "writes_system_file": (
        "A file outside the user's own folders is written.",
        lambda p: any(map(_is_system, _written(p))),
    ),
    "writes_program": (
        "A file is written that can be run.",
        lambda p: any(SCRIPT.search(path) for path in _written(p)),
    ),
    "writes_startup_file": (
        "A file is changed that runs when somebody logs in or a machine starts.",
        lambda p: any(map(_STARTUP.search, _written(p) | _changed(p))),
    ),
    "copies": ("A file is copied, moved or linked.", lambda p: any(p.called(*COPIES))),
    "copies_system_file": (
        "A file is copied from or to a place outside the user's own folders.",
        lambda p: any(
            _is_system(text) for call in p.called(*COPIES) for text in call.texts
        ),
    ),
    "lists": ("A folder is listed.", lambda p: any(p.called(*LISTS))),
    "lists_system_folder": (
        "A folder outside the user's own is listed.",
        lambda p: any(
            _is_system(text) for call in p.called(*LISTS) for text in call.texts
        ),
    ),
    "climbs_out": (
        "A path climbs out of its folder.",
        lambda p: any("../" in text for text in _read(p) | _written(p) | _changed(p)),
    ),
    "deletes": (
        "A file or folder is deleted.",
        lambda p: any(p.called(*DELETES)) or says(COMMAND_DELETES)(p),
    ),
    "deletes_tree": (
        "A folder is deleted with all that is in it.",
        lambda p: any(p.called("shutil.rmtree")) or says(COMMAND_DELETES)(p),
    ),
    "changes_system": (
        "What lies outside the user's own folders is deleted, moved or changed.",
        lambda p: any(map(_is_system, _changed(p))),
    ),
    "touches_system": (
        "A path outside the user's own folders stands in the program.",
        lambda p: any(t.startswith("/") and _is_system(t) for t in p.texts),
    ),
}
