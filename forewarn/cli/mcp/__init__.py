"""`forewarn mcp`: a guard before the tools of any MCP server."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import click

from forewarn.cli.options.judging import Judging, judging_options
from forewarn.cli.options.telling import Telling, telling_options
from forewarn.cli.support import FILE, naming


@click.group()
def mcp() -> None:
    """MCP: guard the tools of any server, whichever agent calls them.

    Standard output is the agent's alone, so there is no --json.
    """


@mcp.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--law",
    "laws",
    multiple=True,
    metavar="FORMULA",
    help="A law over all calls of the session, a call a step; may be given again.",
)
@click.option(
    "--policy",
    "policy_path",
    type=FILE,
    help="What to do about a call that breaks one.",
)
@click.option("--shadow", is_flag=True, help="Judge and record; withhold nothing.")
@click.option("--record", type=FILE, help="Where the run record goes.")
@judging_options
@telling_options
@click.option(
    "--time-limit",
    "limit_s",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of a call. One that takes longer is answered, and has failed.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def guard(
    laws: tuple[str, ...],
    policy_path: Path | None,
    shadow: bool,
    record: Path | None,
    judging: Judging,
    telling: Telling,
    limit_s: float,
    command: tuple[str, ...],
) -> None:
    """Start the MCP server COMMAND, and stand before it on standard input and output.

    Give this in place of COMMAND wherever an agent is told of its servers. Each call
    of a tool is judged first, with all calls before it: tool is its name, failed
    whether it failed, arg_NAME an argument. A call that would break a law is not made:
    the agent is told why, as the call's answer. Rules and guard programs judge each
    call as well. Nobody can be asked here: an `ask` becomes a `stop`.

    \b
    Example:
      forewarn mcp guard \\
        --law 'always (tool == delete_file -> once (tool == backup and not failed))' \\
        --record calls.run.jsonl -- npx some-file-server /srv/files
    """
    from forewarn.monitors.guarding.policy import load_policy
    from forewarn.plugins.agents import AgentGuard
    from forewarn.plugins.agents.trajectory import POLICY
    from forewarn.plugins.mcp import serve

    policy = POLICY if policy_path is None else load_policy(policy_path)
    if shadow:
        policy = replace(policy, shadow=True)
    if not (laws or judging):
        raise click.UsageError("name a --law, --rules or a --guard-program")
    judges = judging.judges(policy.shadow)
    with naming("--law"):
        made = AgentGuard.by_laws(
            laws,
            policy,
            record=record,
            judges=judges,
            listeners=telling.listeners(),
        )
    with made, naming("--law"):
        asyncio.run(serve(list(command), os.environ, made, limit_s=limit_s))
