"""`--live`: shows a running guard in the terminal, on a web page or in Foxglove."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click

from forewarn.abstractions.errors import InvalidInput
from forewarn.cli.command import OnlyFlag

if TYPE_CHECKING:
    from forewarn.monitors.guarding.drift import Drift
    from forewarn.monitors.guarding.listening import Listener

LINE = "line"


@dataclass(frozen=True, slots=True)
class Showing:
    """The live view.

    Args:
        live: Show the run while it takes place. line (or no value): as a line in this
            terminal; web: on a page that this machine serves; foxglove: in Foxglove
            (needs the extra foxglove).
    """

    live: Annotated[Literal["line", "web", "foxglove"] | None, OnlyFlag(LINE)] = None


@contextmanager
def watched_live(live: str | None) -> Iterator[list[Callable[[], Listener]]]:
    """Yields functions that create the listeners for --live, in any process."""
    match live:
        case None:
            yield []
        case "line":
            from forewarn.scenarios.live.line import LiveLine

            yield [LiveLine] if sys.stderr.isatty() else []
        case "foxglove":
            from forewarn.scenarios.live.foxglove import HOST, PORT, ToFoxglove, layout

            ToFoxglove(0).close()  # reports missing packages now
            click.echo(f"Watch the run live in Foxglove: ws://{HOST}:{PORT}", err=True)
            click.echo(f"Layout to import into Foxglove: {layout()}", err=True)
            yield [ToFoxglove]
        case "web":
            with _page() as page:
                yield [page]
        case _:
            raise InvalidInput(
                f"{live!r:.80} is not a live view",
                source="watched_live",
                mend="give 'line', 'web', 'foxglove' or None",
            )


def show_drift(audience: Iterable[Callable[[], Listener]], drift: Drift | None) -> None:
    """Updates the evidence of drift on live pages."""
    from forewarn.scenarios.live.feed import ToPage

    for each in audience:
        if isinstance(each, ToPage) and drift is not None:
            each.drift(drift)


@contextmanager
def _page() -> Iterator[Callable[[], Listener]]:
    from forewarn.scenarios.live.feed import ToPage

    command = [sys.executable, "-m", "forewarn.scenarios.live.server"]
    # Ctrl-C must reach only the guard; the page remains until the guard has ended.
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as server:
        try:
            said = _said(server)
            click.echo(f"Watch the run live: {said['page']}", err=True)
            yield ToPage(said["host"], said["port"], said["token"])
        finally:
            if server.stdin is not None:
                server.stdin.close()


def _said(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    from forewarn.abstractions.errors import ForewarnError

    line = b"" if server.stdout is None else server.stdout.readline()
    if not line:
        raise ForewarnError("the live page's server did not start")
    said: dict[str, Any] = json.loads(line)
    return said
