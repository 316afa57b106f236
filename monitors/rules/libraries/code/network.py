"""Hazards of programs that reach over the network."""

from __future__ import annotations

import ast
import re

from forewarn.monitors.rules.libraries.code.calls import (
    EVALUATES,
    SHELLS,
    Table,
    fetches,
    opens,
    posts,
    writes,
)
from forewarn.monitors.rules.libraries.code.files import SCRIPT
from forewarn.monitors.rules.libraries.code.program import Program, host_of

_SAFE_HOSTS = (
    "localhost", "127.0.0.1", "::1", "python.org", "pypi.org", "pythonhosted.org",
    "github.com", "githubusercontent.com", "wikipedia.org", "example.com",
    "example.org", "google.com", "w3.org", "googleapis.com", "microsoft.com",
    "apple.com", "mozilla.org", "wikimedia.org", "gnu.org", "kernel.org", "debian.org",
    "ubuntu.com", "apache.org", "gitlab.com", "bitbucket.org", "readthedocs.io",
    "npmjs.com", "crates.io", "docker.com", "stackoverflow.com", "arxiv.org",
    "ietf.org", "iana.org", "un.org", "who.int", "europa.eu", "bbc.co.uk", "bbc.com",
    "cnn.com", "reuters.com", "nytimes.com", "wsj.com", "theguardian.com",
    "foxnews.com", "openstreetmap.org", "open-meteo.com", "httpbin.org",
    "jsonplaceholder.typicode.com", "kaggle.com", "huggingface.co", "gov", "edu", "mil",
)  # fmt: skip
_LOCAL = re.compile(r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|::1")


def hosts(program: Program) -> set[str]:
    return {host for text in program.texts if (host := host_of(text))}


def _is_safe(host: str) -> bool:
    return any(host == safe or host.endswith(f".{safe}") for safe in _SAFE_HOSTS)


def _amplifies(program: Program) -> bool:
    """What is multiplied a thousandfold, and sent."""
    large = any(
        isinstance(node, ast.Constant)
        and isinstance(node.value, int)
        and node.value >= 1000
        for each in program.nodes
        for node in (
            [each.left, each.right]
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult)
            else [each.value]
            if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Mult)
            else each.args
            if isinstance(each, ast.Call) and _callee(each) == "range"
            else []
        )
    )
    return large and posts(program)


def _callee(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def _redirects(program: Program) -> bool:
    """A shell that is tied to a socket."""
    sockets = "socket" in program.imports()
    ties = any(program.called("os.dup2", "pty.spawn"))
    runs = any(program.called(*SHELLS)) or any(program.called(*EVALUATES))
    receives = any(program.called("?.recv", "?.recvfrom", "?.makefile"))
    return sockets and (ties or (runs and receives))


NETWORK: Table = {
    "fetches": ("Something is fetched from the network.", fetches),
    "posts": ("Something is sent over the network.", posts),
    "posts_file": (
        "What a file holds is sent over the network.",
        lambda p: posts(p) and any(mode == "r" for _, mode in opens(p)),
    ),
    "fetches_plainly": (
        "Something is fetched without encryption from another machine.",
        lambda p: (
            fetches(p)
            and any(
                text.startswith("http://") and not _LOCAL.match(host_of(text) or "")
                for text in p.texts
            )
        ),
    ),
    "fetches_unlisted": (
        "Something is fetched from a host that is not widely known.",
        lambda p: fetches(p) and any(not _is_safe(host) for host in hosts(p)),
    ),
    "saves_fetched": (
        "What is fetched is written to a file.",
        lambda p: fetches(p) and writes(p),
    ),
    "fetches_program": (
        "A program is fetched.",
        lambda p: (
            fetches(p)
            and any(host_of(t) and SCRIPT.search(t.split("?")[0]) for t in p.texts)
        ),
    ),
    "opens_socket": (
        "A socket is opened.",
        lambda p: any(p.called("socket.socket", "socket.create_connection")),
    ),
    "listens": (
        "The program waits for connections.",
        lambda p: any(p.called("?.listen", "?.accept", "?.serve_forever")),
    ),
    "ties_shell_to_socket": ("A shell is tied to a socket.", _redirects),
    "amplifies": ("Something is multiplied a thousandfold and sent.", _amplifies),
}
