"""`forewarn guard-program`: from a request in words to a program that guards."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "compile": "A request to a program.",
    "review": "What a program says, for whoever is to sign it.",
    "sign": "Put your name to a program as it is.",
    "run": "What a program says of one action.",
    "check": "What a program says of recorded actions.",
    "evaluate": "How right a guard is on labelled cases.",
}


class _Group(click.Group):
    """Imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        home = importlib.import_module(f"{__name__}.{cmd_name}")
        command: click.Command = getattr(home, f"{cmd_name}_")
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group("guard-program", cls=_Group)
def guard_program() -> None:
    """From a request in words to a program that guards.

    \b
    A request is compiled once, reviewed and signed by a person, and then judges
    every action without a model:
      forewarn guard-program compile request.md --spec agent.md --out guard.yaml
      forewarn guard-program review guard.yaml
      forewarn guard-program sign guard.yaml --name "Ada"
      forewarn guard-program check actions.jsonl --program guard.yaml

    Each command has --help and --json.
    """
