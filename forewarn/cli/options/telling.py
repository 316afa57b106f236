"""Who is told of interventions, and who is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

import click

from forewarn.cli.support import option_group

if TYPE_CHECKING:
    from forewarn.monitors.guarding.listening import Listener
    from forewarn.plugins.loop.approval import Approver


def to_log() -> Listener:
    """Tells of interventions on standard error, a line each."""
    import logging

    from forewarn.plugins.loop.alerts import LOGGER, LogAlerts

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("forewarn: %(message)s"))
    logging.getLogger(LOGGER).handlers[:] = [handler]
    logging.getLogger(LOGGER).propagate = False
    return LogAlerts()


@cache
def _webhook(url: str, allow_host: str | None) -> Listener:
    """Posts interventions, the last ones before the end too; one a process."""
    from multiprocessing.util import Finalize

    from forewarn.plugins.loop.alerts import Webhook

    hook = Webhook(url, allow_host=allow_host)
    # Unlike atexit, this runs in the processes of a pool as well.
    Finalize(None, hook.close, exitpriority=1)
    return hook


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told of interventions, as options say.

    Args:
        log: Whether standard error is.
        webhook: Where they are posted; None: nowhere.
        webhook_host: The host that this may be on, besides this machine.
    """

    log: bool = False
    webhook: str | None = None
    webhook_host: str | None = None

    def listeners(self) -> list[Callable[[], Listener]]:
        """Make what is told of a loop; what is wrong with it shows now.

        Where OpenTelemetry is installed, it is told too.
        """
        from forewarn.plugins.telemetry import OpenTelemetry, is_installed

        found: list[Callable[[], Listener]] = [to_log] if self.log else []
        if self.webhook is not None:
            hook = partial(_webhook, self.webhook, self.webhook_host)
            hook()
            found.append(hook)
        if is_installed():
            found.append(OpenTelemetry)
        return found


telling_options = option_group(
    "telling",
    Telling,
    click.option(
        "--log",
        is_flag=True,
        help="Say each intervention on standard error as it begins.",
    ),
    click.option(
        "--webhook", metavar="URL", help="Post each intervention there as JSON."
    ),
    click.option(
        "--webhook-host",
        metavar="HOST",
        help="The host that the webhook may be on, where that is not this machine.",
    ),
)


def person() -> Approver | None:
    """Who is asked: whoever sits at the terminal, if anybody does."""
    from forewarn.plugins.loop.approval import Console

    return Console() if sys.stdin.isatty() else None
