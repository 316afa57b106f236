"""`forewarn guard`: a guard for someone else's loop, over a socket or line by line."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.cli.guarding.making import Asked, guard_options
from forewarn.cli.guarding.saying import announced
from forewarn.cli.options.live import live_option, watched_live
from forewarn.cli.support import FILE, FOLDER, clean, emit, json_option, naming

if TYPE_CHECKING:
    from forewarn.monitors.guarding.listening import Listener
    from forewarn.plugins.remote.session import Lend


@click.command()
@click.option(
    "--stdio",
    is_flag=True,
    help="A frame a line on standard input, a decision a line on standard output.",
)
@click.option(
    "--socket",
    "address",
    metavar="HOST:PORT",
    help="Listen there; port 0 takes one that is free. On this machine only.",
)
@click.option(
    "--token-file", type=FILE, help="What loops must show; needed with --socket."
)
@click.option(
    "--allow-remote",
    is_flag=True,
    help="Listen where others can reach it; the token travels in the clear.",
)
@guard_options
@click.option(
    "--record",
    "folder",
    type=FOLDER,
    help="Where a run record of each connection goes.",
)
@live_option
@json_option
def guard(
    stdio: bool,
    address: str | None,
    token_file: Path | None,
    allow_remote: bool,
    asked: Asked,
    folder: Path | None,
    live: str | None,
    as_json: bool,
) -> None:
    """Guard a loop that is not ours: one JSON frame in, one JSON decision out.

    A hello comes first (on standard input it may be left out):
    {"forewarn": "guard/1", "token": …, "provides": ["speed", …]}; then frames:
    {"sequence", "time_s", "signals": {…}, "proposal": {"name", "arguments"}}, with
    "foreseen": {…} for a policy that judges what a proposal would lead to. On the
    socket each message follows its length, four bytes, the highest first. A loop that
    loses the guard must stop: the client in forewarn/plugins/remote/client.py does.
    """
    if stdio == (address is not None):
        raise click.UsageError("give either --stdio or --socket HOST:PORT")
    if address is not None and token_file is None:
        raise click.UsageError("--socket needs --token-file")
    token = "" if token_file is None else _token(token_file)
    with watched_live(live) as watching:
        lend = _lend(asked, folder, watching)
        if address is None:
            from forewarn.plugins.remote.session import serve_lines

            serve_lines(sys.stdin.buffer, sys.stdout.buffer, lend)
        else:
            _listen(lend, address, token, allow_remote=allow_remote, as_json=as_json)


def _lend(
    asked: Asked, folder: Path | None, live: Sequence[Callable[[], Listener]]
) -> Lend:
    from forewarn.plugins.remote.session import GuardPool

    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    guarding = asked.guarding(folder, live)
    asked.check(guarding)
    pool = GuardPool(guarding, partial(asked.check, guarding))
    # What is wrong with the model or the policy shows now, not when a loop has come.
    with naming(asked.policy_path or "the policy"):
        made = pool.warm()
    for line in announced(made):
        click.echo(clean(line), err=True)
    return pool.lend


def _token(path: Path) -> str:
    from forewarn.abstractions.errors import InvalidInput
    from forewarn.abstractions.files import read_text

    token = read_text(path, limit=4096).strip()
    if not token.isprintable() or not token.isascii():
        raise InvalidInput("a token is one line of plain characters", source=str(path))
    return token


def _listen(
    lend: Lend, address: str, token: str, *, allow_remote: bool, as_json: bool
) -> None:
    from forewarn.plugins.remote.server import GuardServer

    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise click.UsageError(f"--socket takes HOST:PORT, not {address!r}")
    host = host.strip("[]")
    server = GuardServer(lend, token, host, int(port), allow_remote=allow_remote)
    signal.signal(signal.SIGTERM, lambda *_: server.close())
    shown = f"{host}:{server.port}"
    # What is loaded stays, so no collection need look at it while a loop waits.
    gc.collect()
    gc.freeze()
    try:
        emit(as_json, {"listening": shown}, [f"Listening on {shown}."])
        sys.stdout.flush()
        server.serve()
    finally:
        server.close()
    counts = {"connections": server.connections, "losses": server.losses}
    emit(as_json, counts, [f"{server.connections} connections, {server.losses} lost."])
