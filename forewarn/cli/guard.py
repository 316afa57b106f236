"""`forewarn guard` and `mcp`: guards for loops in any language, and for MCP tools."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from forewarn.abstractions.errors import InvalidInput, naming
from forewarn.cli.command import (
    File,
    Folder,
    Positive,
    command,
    one_of,
)
from forewarn.cli.groups import (
    Judging,
    Telling,
)
from forewarn.cli.guarding import (
    GuardOptions,
    announced,
)
from forewarn.cli.live import (
    Showing,
    watched_live,
)
from forewarn.cli.printing import (
    note,
    say,
)

if TYPE_CHECKING:
    from forewarn.monitors.guarding.listening import Listener
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.plugins.remote.server import Server
    from forewarn.plugins.remote.session import Lend


@command()
def guard(
    *,
    stdio: bool = False,
    socket: Annotated[str | None, "HOST:PORT"] = None,
    ros_oracle: Annotated[str | None, "HOST:PORT"] = None,
    topics: File | None = None,
    token_file: File | None = None,
    allow_remote: bool = False,
    asked: GuardOptions,
    record: Folder | None = None,
    showing: Showing,
) -> None:
    """Guard a control loop in any language: one JSON decision for each JSON frame.

    The first message is a hello (optional on standard input): {"forewarn": "guard/1",
    "token": …, "provides": ["speed", …]}. Frames follow: {"sequence", "time_s",
    "signals": {…}, "proposal": {"name", "arguments"}}, with "foreseen": {…} if the
    policy evaluates the predicted result of a proposal. On a socket, each message is
    preceded by its length as four bytes, big-endian. A loop that loses the connection
    to its guard must stop, as the client in forewarn/plugins/remote/client.py does.

    With --ros-oracle, the guard is an oracle for ROSMonitoring: nodes send the messages
    of their topics over a WebSocket, and --topics maps them to signals.

    Args:
        stdio: Read one frame per line from standard input, and write one decision per
            line to standard output.
        socket: With --token-file: listen on this address; port 0 picks a free port.
        ros_oracle: With --topics: listen for nodes of ROSMonitoring on this address.
        topics: With --ros-oracle: file that maps topics to signals.
        token_file: With --socket: file with the token that clients must send.
        allow_remote: With --socket: allow an address that other machines can reach. The
            token is sent unencrypted.
        record: Folder for the run record of each connection.
    """
    one_of("--stdio", "--socket HOST:PORT", "--ros-oracle HOST:PORT")
    token = "" if token_file is None else _token(token_file)
    with watched_live(showing.live) as watching:
        if ros_oracle is not None and topics is not None:
            _answer_ros(asked, record, watching, ros_oracle, topics)
            return
        lend = _lend(asked, record, watching)
        if socket is None:
            from forewarn.plugins.remote.session import serve_lines

            serve_lines(sys.stdin.buffer, sys.stdout.buffer, lend)
        else:
            _listen(lend, socket, token, allow_remote=allow_remote)


def _answer_ros(
    asked: GuardOptions,
    folder: Path | None,
    live: Sequence[Callable[[], Listener]],
    address: str,
    topics: Path,
) -> None:
    from forewarn.plugins.remote.session import TOLERANCE
    from forewarn.plugins.ros.oracle import NAME, Oracle, OracleServer
    from forewarn.plugins.ros.topics import load_topics

    told = load_topics(topics)
    guarding = _guarding(asked, folder, live)
    asked.check(
        guarding, vocabulary=told.vocabulary.name, period_s=told.period_s,
        tolerance=TOLERANCE,
    )  # fmt: skip
    with naming(asked.policy or "the policy"):
        oracle = Oracle(guarding, told)
    with oracle.loop:
        for line in announced(oracle.loop.guard):
            note(line)
        server = OracleServer(oracle, *_place(address, "--ros-oracle"))
        counts = _serve(server, f"ws://{address.rpartition(':')[0]}:{server.port}")
        frames = oracle.frames
        facts = {"source": NAME, "frames": frames, **counts}
        say(facts, [f"{frames} frames evaluated."])


def _guarding(
    asked: GuardOptions, folder: Path | None, live: Sequence[Callable[[], Listener]]
) -> Guarding:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return asked.guarding(folder, live)


def _lend(
    asked: GuardOptions, folder: Path | None, live: Sequence[Callable[[], Listener]]
) -> Lend:
    from forewarn.plugins.remote.session import GuardPool

    guarding = _guarding(asked, folder, live)
    asked.check(guarding)
    pool = GuardPool(guarding, partial(asked.check, guarding))
    # Report errors in the model or policy now, not when the first loop connects.
    with naming(asked.policy or "the policy"):
        made = pool.warm()
    for line in announced(made):
        note(line)
    return pool.lend


def _token(path: Path) -> str:
    from forewarn.abstractions.files import read_text

    if not path.exists():  # the message leaves out the path, which may be the token
        raise InvalidInput(
            "no such file",
            source="--token-file",
            mend="write the token into a file and give the name of the file",
        )
    token = read_text(path, limit=4096).strip()
    if not token.isprintable() or not token.isascii():
        raise InvalidInput(
            "a token must be one line of printable ASCII characters", source=str(path)
        )
    return token


def _listen(lend: Lend, address: str, token: str, *, allow_remote: bool) -> None:
    from forewarn.plugins.remote.server import GuardServer

    host, port = _place(address, "--socket")
    server = GuardServer(lend, token, host, port, allow_remote=allow_remote)
    counts = _serve(server, f"{host}:{server.port}")
    say(counts, [f"{server.connections} connections, {server.losses} lost."])


def _place(address: str, option: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise click.UsageError(f"{option} takes HOST:PORT, not {address!r}")
    return host.strip("[]"), int(port)


def _serve(server: Server, shown: str) -> dict[str, int]:
    signal.signal(signal.SIGTERM, lambda *_: server.close())
    # Exempt loaded objects from garbage collection, to avoid pauses while a loop waits.
    gc.collect()
    gc.freeze()
    try:
        say({"listening": shown}, [f"Listening on {shown}."])
        server.serve()
    finally:
        server.close()
    return {"connections": server.connections, "losses": server.losses}


OWN_WORDS = {"allow_interspersed_args": False}
"""The words after the first word of COMMAND are its own, even if they look like options
of this command.
"""


@click.group()
def mcp() -> None:
    """Guard the tools of an MCP server for any agent.

    Standard output carries the messages of the protocol, so there is no --json.
    """


@command("guard", of=mcp, json=False, context_settings=OWN_WORDS)
def guard_tools(
    command: tuple[Annotated[str, click.UNPROCESSED], ...],
    /,
    *,
    law: tuple[Annotated[str, "FORMULA"], ...] = (),
    model: Folder | None = None,
    shadow: bool = False,
    judging: Judging,
    policy: File | None = None,
    record: File | None = None,
    showing: Showing,
    telling: Telling,
    time_limit: Annotated[Positive, "SECONDS"] = 300.0,
) -> None:
    """Guard the tools of the MCP server COMMAND.

    The guard starts the server and acts as a proxy on standard input and output. Use
    this command in place of COMMAND in the agent's configuration. Laws are evaluated on
    the sequence of all calls. A law can use tool (the name of the tool), failed
    (whether the call failed) and arg_NAME (an argument). A call that would violate a
    law is withheld, and the response tells the agent why. Rules and guard programs are
    also applied to each call. No person can be asked, so `ask` becomes `stop`.

    \b
    Example:
      forewarn mcp guard \\
        --law 'always (tool == delete_file -> once (tool == backup and not failed))' \\
        --record calls.run.jsonl -- npx some-file-server /srv/files

    Args:
        law: Law over the calls of the session, one step per call; may be repeated.
        model: Folder of a guard that `forewarn warrant` created from logs of calls,
            with its laws (not with --law).
        shadow: Decide and record, but do not withhold calls.
        policy: Policy file, which defines the intervention for a call that would
            violate a law.
        record: Write the run record to this file.
        time_limit: Time limit of a call in seconds. A call that takes longer returns an
            error and counts as failed.
    """
    from forewarn.monitors.guarding.policy import InvalidPolicy, load_policy
    from forewarn.plugins.agents import AgentGuard
    from forewarn.plugins.agents.trajectory import POLICY

    acts = POLICY if policy is None else load_policy(policy)
    if shadow:
        acts = replace(acts, shadow=True)
    if not (law or judging or model):
        raise click.UsageError("give --law, --rules, --guard-program or --model")
    judges = judging.judges(acts.shadow)
    listeners = telling.listeners()
    # Imported late, because the import takes longer than rejecting an invalid file.
    from forewarn.plugins.mcp import serve

    with watched_live(showing.live) as audience:
        heard = [*listeners, *audience]
        with naming("--law" if model is None else model):
            try:
                if model is None:
                    made = AgentGuard.by_laws(
                        law, acts, record=record, judges=judges, listeners=heard
                    )
                else:
                    made = AgentGuard.load(
                        model, acts, record=record, judges=judges, listeners=heard
                    )
            except InvalidPolicy as error:
                raise error.within(str(policy or "the policy")) from error
        with made, naming("--law"):
            asyncio.run(serve(list(command), os.environ, made, limit_s=time_limit))


@command("tools", of=mcp, json=False, context_settings=OWN_WORDS)
def write_tools(
    command: tuple[Annotated[str, click.UNPROCESSED], ...],
    /,
    *,
    out: File,
) -> None:
    """Write the tools of the MCP server COMMAND to a file.

    The command starts the server to ask for its tools. `forewarn guard-program compile
    --tools` reads the file.

    \b
    Example:
      forewarn mcp tools --out tools.json -- npx some-file-server /srv/files

    Args:
        out: Write the list as JSON to this file.
    """
    from forewarn.abstractions.files import write_json
    from forewarn.plugins.mcp import listed

    write_json(out, asyncio.run(listed(list(command), os.environ)))
