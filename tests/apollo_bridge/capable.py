"""Apollo's row in the table of capabilities."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import ClassVar

from forewarn.abstractions.frame import Frame, Source
from forewarn.plugins.loop.guarding import Guarding
from tests.plugins.capabilities import BLIND, SIMULATED, Way


@cache
def _seen() -> tuple[Source, Frame]:
    from tests.apollo_bridge.played import inside

    with closing(inside("s2", 3)) as world:
        return world.source, world.reset(3)


class Apollo(Way):
    name, title = "apollo guard", "`forewarn apollo guard`, tested with the stand-in"
    needs, command = "libsumo", ("apollo", "guard")
    without: ClassVar[Mapping[str, str]] = {"`when: before`": BLIND, "lease": SIMULATED}

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        return _seen()

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        from tests.apollo_bridge.played import inside

        with closing(inside("s2", 3)) as world:
            loop = guarding.open_world(world)
            loop.prepare(scenario={"name": "apollo"}, seed=3)
            frame = world.reset(3)
            with loop:
                loop.equip(world)
                for _ in range(6):
                    frame = world.step(loop.decide(frame).executed)
                loop.close("it was over")
