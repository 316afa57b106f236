"""What the commands that ask a model share: who is asked, and what it is shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from forewarn.cli.support import Count, Number

if TYPE_CHECKING:
    from forewarn.plugins.chat import Chat
    from forewarn.plugins.programs.writing import Shown

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)

_Command = TypeVar("_Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--model",
        default="",
        metavar="PROVIDER:NAME",
        help="The model that is asked, such as ollama:llama3.1.",
    ),
    click.option(
        "--base-url", default="", help="Where it is, if not at its provider's."
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=Number(min=0, min_open=True),
        default=120.0,
        show_default=True,
        help="How long a reply may take, in seconds.",
    ),
    click.option("--replies", type=FOLDER, help="A folder of recorded replies."),
    click.option(
        "--how",
        type=click.Choice(["live", "record", "replay"]),
        default="live",
        show_default=True,
        help="Ask the model, keep what it replies, or let what was kept reply.",
    ),
    click.option("--memory", type=FOLDER, help="A folder of cases judged well."),
    click.option(
        "-k",
        "count",
        type=Count(min=0),
        default=3,
        show_default=True,
        help="How many of them the model is shown: those that are most alike.",
    ),
)


def asking_options(command: _Command) -> _Command:
    """The options of a command that may ask a model."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chat_of(
    model: str, base_url: str, timeout_s: float, replies: Path | None, how: Any
) -> tuple[Chat, str]:
    """Who is asked, and what a figure says of who it was."""
    from forewarn.plugins.chat import Partner

    partner = Partner(
        model,
        base_url=base_url,
        temperature=0.0,
        timeout_s=timeout_s,
        replies=replies,
        how=how,
    )
    who = f"replies recorded in {replies}" if how == "replay" else f"model {model}"
    return partner.chat(0), who


def shown_of(memory: Path | None, count: int, farthest: bool = False) -> Shown:
    """What a model is shown of the past."""
    from forewarn.plugins.programs.memory import Memory
    from forewarn.plugins.programs.writing import Shown

    return Shown(None if memory is None else Memory(memory), count, farthest)
