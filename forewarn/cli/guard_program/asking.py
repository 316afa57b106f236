"""What the commands that ask a model share: who is asked, and what it is shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import Count, Number, option_group

if TYPE_CHECKING:
    from forewarn.plugins.chat import Chat
    from forewarn.plugins.programs.writing import Shown

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


@dataclass(frozen=True, slots=True)
class Asking:
    """Who is asked, and what it is shown of the past.

    Args:
        model: The model that is asked.
        base_url: Where it is.
        timeout_s: How long a reply may take.
        replies: A folder of recorded replies.
        how: Whether they are recorded, or replayed.
        memory: A folder of cases judged well.
        count: How many of them are shown.
    """

    model: str
    base_url: str
    timeout_s: float
    replies: Path | None
    how: Any
    memory: Path | None
    count: int

    def chat(self) -> tuple[Chat, str]:
        """Who is asked, and what a figure says of who it was."""
        from forewarn.plugins.chat import Partner

        partner = Partner(
            self.model,
            base_url=self.base_url,
            temperature=0.0,
            timeout_s=self.timeout_s,
            replies=self.replies,
            how=self.how,
        )
        recorded = f"replies recorded in {self.replies}"
        who = recorded if self.how == "replay" else f"model {self.model}"
        return partner.chat(0), who

    def shown(self, nothing: bool = False, farthest: bool = False) -> Shown:
        """What a model is shown of the past."""
        from forewarn.plugins.programs.memory import Memory
        from forewarn.plugins.programs.writing import Shown

        kept = None if nothing or self.memory is None else Memory(self.memory)
        return Shown(kept, self.count, farthest)


asking_options = option_group(
    "asking",
    Asking,
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
"""The options of a command that may ask a model."""
