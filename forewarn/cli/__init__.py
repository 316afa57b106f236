"""The command line: one module per command, imported when the command runs.

`forewarn --help` needs only the table below, so it is fast even though commands import
large packages.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import click

from forewarn import __version__
from forewarn.abstractions.errors import (
    ForewarnError,
    InvalidInput,
    clean,
    is_out_of_threads,
    mend_of,
    near_miss,
    suggest,
)
from forewarn.abstractions.places import left_running

BAD_INPUT = 2
MISSING = 3
INTERNAL_ERROR = 70
INTERRUPTED = 130
BROKEN_PIPE = 141


class _Entry(NamedTuple):
    section: str
    module: str
    summary: str


_START = "Start here"
_MODEL = "From traces to a model"
_ASK = "Query a model"
_WATCH = "Check a trace"
_RUN = "Run scenarios"
_GUARD = "Guard a run"

COMMANDS = {
    "demo": _Entry(_START, "demo", "Demonstrate every step in embedded worlds."),
    "doctor": _Entry(_START, "doctor", "List usable and missing integrations."),
    "learn": _Entry(_MODEL, "learn", "Learn a model from traces."),
    "merge-tallies": _Entry(_MODEL, "merge", "Add the tallies of a fleet to a model."),
    "convert": _Entry(_MODEL, "files", "Convert traces to Parquet and back."),
    "import": _Entry(_MODEL, "files", "Import a chain from another tool."),
    "export": _Entry(_MODEL, "files", "Export a model for another tool."),
    "show": _Entry(_ASK, "show", "Print a model's states, transitions and risks."),
    "check": _Entry(_ASK, "check", "Compute the probability of a property."),
    "monitor": _Entry(_WATCH, "watch", "Check laws on a recorded trace."),
    "laws": _Entry(_WATCH, "watch", "List the laws in the law book, or show one law."),
    "rules": _Entry(_WATCH, "rules", "Import, score, lint and evolve rules."),
    "scenarios": _Entry(_RUN, "scenarios", "List scenarios."),
    "collect": _Entry(_RUN, "collect", "Record unguarded runs as traces."),
    "run": _Entry(_RUN, "run", "Run a scenario with early warnings."),
    "measure": _Entry(_RUN, "measure", "Measure warning quality on held-out runs."),
    "report": _Entry(_RUN, "scenarios", "Write an HTML report of runs."),
    "tune": _Entry(_RUN, "tune", "Find thresholds and write a policy."),
    "train": _Entry(_RUN, "train", "Collect, learn and tune in one step."),
    "guard": _Entry(_GUARD, "guard", "Guard your own control loop."),
    "warrant": _Entry(_RUN, "warrant", "Create a guard with a certificate."),
    "warrant renew": _Entry(_RUN, "warrant", "Add runs to a certificate."),
    "guard-program": _Entry(
        _GUARD, "guard_program", "Compile requests into guard programs."
    ),
    "carla": _Entry(_GUARD, "carla", "Guard or record CARLA, or serve a stand-in."),
    "apollo": _Entry(
        _GUARD, "apollo_guard", "Guard or record Apollo, or serve a stand-in."
    ),
    "mcp": _Entry(_GUARD, "guard", "Guard the tools of an MCP server."),
    "thor": _Entry(_GUARD, "thor", "Work with AI2-THOR and the embedded household."),
    "verify": _Entry(_GUARD, "records", "Check that a run record is unchanged."),
    "replay": _Entry(_GUARD, "records", "Recompute the decisions of a run."),
}


FORMERLY = {"merge": "merge-tallies"}
"""Command names of the previous release, which are still accepted, and their new names.
"""


class _Forewarn(click.Group):
    """A group that imports a command when it runs, and prints errors as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = FORMERLY.get(cmd_name, cmd_name)
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        home = importlib.import_module(f"forewarn.cli.{entry.module}")
        name = cmd_name.replace("-", "_").replace(" ", "_")
        command: click.Command = getattr(home, name, None) or getattr(home, f"{name}_")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if " ".join(args[:2]) in COMMANDS:
            args = [" ".join(args[:2]), *args[2:]]
        name = args[0]
        known = name.startswith("-") or name in {*COMMANDS, *FORMERLY}
        if not known and not ctx.resilient_parsing:  # false during shell completion
            hint = _completion(name) or near_miss(name, COMMANDS)
            raise click.UsageError(
                f"no such command {name!r} ({hint or 'forewarn --help lists them'})"
            )
        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            entry = COMMANDS[name]
            sections.setdefault(entry.section, []).append((name, entry.summary))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows, col_max=15)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Runs a command and exits with its status."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        extra |= {"standalone_mode": False, "prog_name": "forewarn"}
        status = self._run(*args, **extra)
        if left_running:
            sys.stdout.flush()
            os._exit(status)
        sys.exit(status)

    def _run(self, *args: Any, **extra: Any) -> int:
        try:
            _check_completion()
            status = super().main(*args, **extra)
            sys.stdout.flush()
            return status if isinstance(status, int) else 0
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 0
        except ForewarnError as error:
            return _complain(str(_of_scenarios(error)), error.exit_status)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "forewarn"
            if isinstance(error, click.NoSuchOption):
                # click also suggests options that share only the dashes.
                names = {name.lstrip("-"): name for name in error.possibilities or ()}
                mend = _commands_with(error.option_name)
                mend = mend or near_miss(error.option_name.lstrip("-"), names, names)
                mend = mend or _completion(error.option_name)
                message = error.message.rstrip(".")
                error = click.UsageError(f"{message} ({mend})" if mend else message)
            said = _as_clause(error)
            group = error.ctx.command if error.ctx else None
            if said.startswith("no such command") and isinstance(group, click.Group):
                mend = suggest(said.split("'")[1], group.commands)
                said = f"{said.partition('.')[0]} ({mend})"
            if said.startswith("got unexpected extra argument") and error.ctx:
                if re.search(r"\((-?[\d.]+|\w+=.*)\)$", said.rstrip(".")):
                    said += "; join the values of an option, as in 0.3,0.5 or rain=0.2"
                said += f"; write {error.ctx.get_usage().partition(' ')[2]}"
            if not said.endswith(")") and "did you mean" not in said.lower():
                said = f"{said.rstrip('.')} (see {where} --help)"
            return _complain(said, BAD_INPUT, f"{where}: ")
        except click.ClickException as error:
            return _complain(_as_clause(error), BAD_INPUT)
        except (click.Abort, KeyboardInterrupt):
            return _complain("interrupted", INTERRUPTED)
        except OSError as error:
            if error.errno == errno.EPIPE:
                return _hang_up()
            return _complain(_os_problem(error), BAD_INPUT)
        except RecursionError:
            return _complain("the input is nested too deeply", BAD_INPUT)
        except Exception as error:
            if is_out_of_threads(error):
                return _complain(
                    "could not start another thread on this machine", MISSING
                )
            if os.environ.get("FOREWARN_TRACEBACK"):
                traceback.print_exc()
            from forewarn.plugins.functions import said_where

            if own := said_where(error):
                return _complain(own, BAD_INPUT)
            if isinstance(error, ModuleNotFoundError) and error.name:
                package = error.name.partition(".")[0]
                return _complain(
                    f"the package {package} is not installed (run pip install "
                    f"{package})",
                    MISSING,
                )
            return _complain(
                f"a defect in forewarn: {type(error).__name__}: {error} (please "
                "report it with the traceback that FOREWARN_TRACEBACK=1 prints)",
                INTERNAL_ERROR,
            )

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # Handled here because click would exit with status 1, which means a
            # finding.
            return _hang_up()


def _complain(message: str, status: int, head: str = "forewarn: ") -> int:
    line = " ".join(clean(message).split())
    click.echo(f"{head}{line}", err=True)
    return status


_NO_LAW = re.compile(r"the law book has no law '(\w+)'")


def _of_scenarios(error: ForewarnError) -> ForewarnError:
    """Returns the error, reworded if a scenario was given where a file is needed, or
    the law of a scenario where it is not known.
    """
    if not isinstance(error, InvalidInput):
        return error
    if law := _NO_LAW.match(error.problem):
        from forewarn.scenarios.schema import scenario_with_law

        if owner := scenario_with_law(law[1]):
            mend = (
                f"it is a law of the scenario {owner}: write its formula, which "
                f"`forewarn scenarios {owner}` prints, or, with `learn`, give "
                f"--scenario {owner}"
            )
            return InvalidInput(error.problem, source=error.source, mend=mend)
    if error.problem.startswith("no such file"):
        from forewarn.scenarios.schema import shipped_scenarios

        if (name := error.source) in shipped_scenarios():
            mend = f"record its runs with `forewarn collect {name}`"
            problem = "this is a scenario, not a file"
            return InvalidInput(problem, source=name, mend=mend)
    return error


_INSTRUCTION = re.compile("((bash|zsh|fish)_(source|complete))?")


def _check_completion() -> None:
    """Rejects an instruction for the shell's completion that click would ignore."""
    asked = os.environ.get("_FOREWARN_COMPLETE", "")
    if not _INSTRUCTION.fullmatch(asked):
        raise InvalidInput(
            f"expected bash_source, zsh_source or fish_source, found {asked!r:.40}",
            source="_FOREWARN_COMPLETE",
            mend="see docs/shell.md",
        )


def _completion(word: str) -> str:
    """Returns how to switch on completion if a word asks for it."""
    told = (
        'add eval "$(_FOREWARN_COMPLETE=bash_source forewarn)" to ~/.bashrc; for other '
        "shells, see docs/shell.md"
    )
    return told if "complet" in word else ""


def _commands_with(option: str) -> str:
    """Returns a hint that names the commands with an option; empty if there is none."""
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in COMMANDS}
    found = [
        name
        for name, command in commands.items()
        if command and any(option in each.opts for each in command.params)
    ]
    return f"this option is for {', '.join(found)}" if found else ""


_FILE = re.compile(r"Directory '(.*)' is a file")
_NOWHERE = re.compile(r"(?:File|Path|Directory) '(.*)' does not exist\.?")


def _as_clause(error: click.ClickException) -> str:
    message = _FILE.sub(r"\1 is a file, but a folder is needed", error.format_message())
    if message.endswith("' is a directory."):
        message = f"{message[:-1]} (give a file in this folder)"
    if gone := _NOWHERE.search(message):
        mend = mend_of(FileNotFoundError(), Path(gone[1]))
        message = f"{message[: gone.start()]}{gone[1]}: no such file or folder ({mend})"
    return message[:1].lower() + message[1:]


def _os_problem(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    reason = reason[:1].lower() + reason[1:]
    if error.errno == errno.EADDRINUSE:
        return f"{reason} (choose another port with --port)"
    if not isinstance(error.filename, str):
        return reason
    mend = mend_of(error, Path(error.filename))
    return f"{error.filename}: {reason}" + (f" ({mend})" if mend else "")


def _hang_up() -> int:
    """Discards all further output, because the reader of our output has closed the
    pipe.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    return BROKEN_PIPE


@click.group(
    cls=_Forewarn,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 88},
    epilog=(
        "Every command has --help and --json. Exit status: 0 success, 1 a check found "
        "something, 2 bad input, 3 a dependency is missing, 130 interrupted."
    ),
)
@click.version_option(__version__, message="forewarn %(version)s")
def main() -> None:
    """Estimate how likely a car or robot is to break a rule soon.

    Forewarn learns a Markov chain over a few readable predicates from traces, combines
    it with the automata of laws, and computes the risk in every state, with confidence
    bounds.
    """
