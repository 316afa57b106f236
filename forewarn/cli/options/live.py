"""--live: watching a guard while it guards, as a line, on a page or in Foxglove."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from forewarn.cli.support import clean

if TYPE_CHECKING:
    from forewarn.abstractions.frame import Frame
    from forewarn.monitors.guarding.decision import Decision
    from forewarn.monitors.guarding.guard import Guard
    from forewarn.monitors.guarding.watch import Watch
    from forewarn.plugins.loop.loop import Audience, Turn
    from forewarn.plugins.scenery import Scenic

LINE, WEB, FOXGLOVE = "line", "web", "foxglove"
NAME_WIDTH, BAR_WIDTH = 28, 24
LINES_APART_S = 0.1

live_option = click.option(
    "--live",
    is_flag=False,
    flag_value=LINE,
    type=click.Choice([LINE, WEB, FOXGLOVE]),
    help="Watch while it goes on: line, the default, in this terminal; web, on a page"
    " of this machine's; foxglove, in Foxglove, with the extra of that name.",
)


class LiveLine:
    """One line on the terminal that follows an episode; an `Audience`."""

    def __init__(self) -> None:
        self._due = 0.0
        self._name = self._done = ""

    def began(self, name: str, guard: Guard, scenic: Scenic | None) -> None:
        """Takes down what the run is called."""
        self._name, self._done = name, ""

    def decided(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        """Writes the line anew, if the last was a while ago."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + LINES_APART_S
        words = f"{self._name}  {frame.time_s:6.1f} s  {self._risk(watch, decision)}"
        click.echo(f"\r\x1b[K{clean(words)}", err=True, nl=False)

    def _risk(self, watch: Watch, decision: Decision) -> str:
        known = [law for law in watch.laws if law.point == law.point]
        if not known:
            return f"{decision.kind}  {decision.reason}"
        law = max(known, key=lambda each: each.point)
        name = law.name if len(law.name) <= NAME_WIDTH else f"{law.name[:27]}…"
        left = "" if law.left_s is None else f"  {law.left_s:.1f} s left"
        return (
            f"{bar(law.low, law.point, law.high)} {law.point:.2f}"
            f" ({law.low:.2f} to {law.high:.2f})  {name}{left}  {decision.kind}"
            f"{self._done}"
        )

    def carried_out(self, frame: Frame, turn: Turn) -> None:
        """Takes down whether it was obeyed."""
        obeyed = turn.outcome.obeyed
        self._done = "" if obeyed is None else ", obeyed" if obeyed else ", not obeyed"

    def ended(self, why: str) -> None:
        """Takes the line away."""
        click.echo("\r\x1b[K", err=True, nl=False)


def bar(low: float, point: float, high: float) -> str:
    """A risk with its bounds: solid up to it, shaded from the least to the most."""
    cells = []
    for cell in range(BAR_WIDTH):
        middle = (cell + 0.5) / BAR_WIDTH
        cells.append("█" if middle <= point else "▒" if middle <= high else "·")
    marked = min(int(low * BAR_WIDTH), BAR_WIDTH - 1)
    if low > 0.0 and cells[marked] == "█":
        cells[marked] = "▓"
    return "".join(cells)


@contextmanager
def watched_live(live: str | None) -> Iterator[list[Callable[[], Audience]]]:
    """Makers of those who watch, as --live asks; any process can call them."""
    match live:
        case None:
            yield []
        case "line":
            yield [LiveLine] if sys.stderr.isatty() else []
        case "foxglove":
            from forewarn.scenarios.live.foxglove import HOST, PORT, ToFoxglove, layout

            maker = ToFoxglove()
            ToFoxglove(0)().close()  # what is missing shows now
            click.echo(f"Watch it live: Foxglove, ws://{HOST}:{PORT}", err=True)
            click.echo(f"A layout to import there: {layout()}", err=True)
            yield [maker]
        case _:
            with _page() as page:
                yield [page]


@contextmanager
def _page() -> Iterator[Callable[[], Audience]]:
    from forewarn.scenarios.live.feed import ToPage

    command = [sys.executable, "-m", "forewarn.scenarios.live.server"]
    # Ctrl-C is for the guard alone: the page stays until that has ended.
    with subprocess.Popen(  # noqa: S603
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as server:
        try:
            said = _said(server)
            click.echo(f"Watch it live: {said['page']}", err=True)
            yield ToPage(said["host"], said["port"], said["token"])
        finally:
            if server.stdin is not None:
                server.stdin.close()


def _said(server: subprocess.Popen[bytes]) -> dict[str, Any]:
    from forewarn.abstractions.errors import ForewarnError

    line = b"" if server.stdout is None else server.stdout.readline()
    if not line:
        raise ForewarnError("the page's server did not begin")
    said: dict[str, Any] = json.loads(line)
    return said


def made_of(makers: Sequence[Callable[[], Audience]]) -> tuple[Audience, ...]:
    """Those who watch in this process."""
    return tuple(make() for make in makers)
