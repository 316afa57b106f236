"""A process of its own for CARLA's client, which ends it at what it is told."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from forewarn.abstractions.errors import Unreachable

_FAULTS = frozenset(("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE"))


class ClientEnded(Unreachable):
    """What a server said ended CARLA's own client, and its process."""


def apart(where: str) -> Callable[[], bool]:
    """Goes on in another process; the one that was there waits and leaves as it does.

    It hands signals on. Where CARLA's library has ended the other, it says so.

    Args:
        where: The server, for people.

    Returns:
        Whether whoever waited is gone, so that nobody would hear of anything.

    Raises:
        ClientEnded: In the process that waited.
    """
    if not hasattr(os, "fork"):
        return lambda: False
    sys.stdout.flush()
    waits = os.getpid()
    child = os.fork()
    if not child:
        return lambda: os.getppid() != waits
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    if ended >= 0:
        raise SystemExit(ended)
    name = signal.Signals(-ended).name
    if name in _FAULTS:
        raise ClientEnded(
            f"what the CARLA server at {where} said ended CARLA's own client ({name}):"
            " nobody guards the vehicle any more, and whoever drives it has it"
        )
    raise SystemExit(128 - ended)
