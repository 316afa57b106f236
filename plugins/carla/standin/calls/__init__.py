"""The calls that clients can make, by name.

`answers` marks one that returns something, `does` one that returns nothing, and
`takes` one of those that is accepted although nothing in this world comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from forewarn.abstractions.errors import ForewarnError
from forewarn.plugins.carla.standin import encoding

if TYPE_CHECKING:
    from forewarn.plugins.carla.standin.recording.recordings import Recordings
    from forewarn.plugins.carla.standin.world import World

Manner = Literal["answers", "does", "takes"]


class Host(Protocol):
    """The server, as calls see it."""

    world: World
    managers: dict[int, list[Any]]
    """Traffic managers, which run in clients: host and port, by port."""
    recordings: Recordings

    def token(self, stream: int) -> bytes:
        """Where a stream is to be had."""

    def load(self, name: str, *, keep_settings: bool) -> None:
        """Makes another world, of a map by name; empty for the same map."""

    def load_text(self, text: str) -> None:
        """Keeps an OpenDRIVE text for the next `load` of its name."""

    def maps(self) -> Iterable[str]:
        """The maps that can be loaded."""

    def restart(self, seed: int) -> None:
        """Makes the same world anew, from another seed."""


Handler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what it does with the server and its arguments."""

    name: str
    kind: Manner
    handler: Handler

    def answer(self, host: Host, arguments: list[Any]) -> Any:
        """Does the call; what cannot be done is an error in the call's own form."""
        error = encoding.refused if self.kind == "answers" else encoding.failed
        try:
            value = self.handler(host, *arguments)
        except ForewarnError as problem:
            return error(str(problem))
        except Exception as problem:  # the arguments are a stranger's
            return error(f"{self.name}: {type(problem).__name__}: {problem}"[:300])
        return encoding.result(value) if self.kind == "answers" else encoding.DONE


CALLS: dict[str, Call] = {}


def answers(name: str) -> Callable[[Handler], Handler]:
    return _marked(name, "answers")


def does(name: str) -> Callable[[Handler], Handler]:
    return _marked(name, "does")


def takes(name: str) -> Callable[[Handler], Handler]:
    return _marked(name, "takes")


def _marked(name: str, kind: Manner) -> Callable[[Handler], Handler]:
    def keep(handler: Handler) -> Handler:
        CALLS[name] = Call(name, kind, handler)
        return handler

    return keep
