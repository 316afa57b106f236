"""The seam to whoever moves the rest of the traffic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from forewarn.plugins.carla.standin.actors import Vehicle, Walker
from forewarn.plugins.carla.standin.encoding import Pose

Guest = Vehicle | Walker
"""One that a client has spawned, and moves; the traffic sees it."""


@dataclass(frozen=True, slots=True)
class Mover:
    """One of the traffic's own.

    Args:
        name: The traffic's name of it.
        kind: The blueprint that it looks like.
        at: Where its middle is.
        speed: In m/s, along its heading.
        half: Half its length, width and height.
        lamps: CARLA's bits of its lights.
    """

    name: str
    kind: str
    at: Pose
    speed: float
    half: tuple[float, float, float]
    lamps: int = 0


class Traffic(Protocol):
    """What moves besides the clients' actors."""

    def hero(self) -> Mover | None:
        """The car that a scenario has ready for a client, where it begins."""

    def weather(self) -> list[float] | None:
        """The weather that a scenario asks for, in CARLA's order."""

    def step(self, dt: float, guests: Sequence[Guest]) -> None:
        """Moves on by `dt` seconds, with the guests where they are now."""

    def movers(self) -> Iterable[Mover]:
        """Everyone who is on the road now."""

    def lights(self, group: str) -> str | None:
        """The letters that a group of lights shows; none if it does not run them."""

    def phase(self, group: str) -> tuple[int, float]:
        """At which phase a group's programme is, and how long that still lasts."""

    def show(self, group: str, letters: str) -> None:
        """Has a group of lights show these letters from now on."""

    def remove(self, name: str) -> None:
        """Takes one of its own, or a guest, off the road."""

    def close(self) -> None: ...


class NoTraffic:
    """Empty roads: what moves is what clients spawn."""

    def hero(self) -> Mover | None:
        return None

    def weather(self) -> list[float] | None:
        return None

    def step(self, dt: float, guests: Sequence[Guest]) -> None:
        pass

    def movers(self) -> Iterable[Mover]:
        return ()

    def lights(self, group: str) -> str | None:
        return None

    def phase(self, group: str) -> tuple[int, float]:
        return 0, 0.0

    def show(self, group: str, letters: str) -> None:
        pass

    def remove(self, name: str) -> None:
        pass

    def close(self) -> None:
        pass
