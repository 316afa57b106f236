"""The way in of ROSMonitoring's nodes, for the table of capabilities."""

from __future__ import annotations

import json
from pathlib import Path

from forewarn.abstractions.frame import Frame, Source
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.ros.oracle import Oracle
from forewarn.plugins.ros.topics import load_topics
from tests.plugins.capabilities import BLIND, Way

MAPPING = """format: forewarn.topics/1
period_s: 0.5
columns:
  /speed.data: speed
"""


class ByOracle(Way):
    name, title = "guard --ros-oracle", "an oracle for ROSMonitoring's nodes"
    command, without = ("guard",), {"`when: before`": BLIND}

    def sees(self, foresees: bool) -> tuple[Source, Frame]:
        source = Source("ros-oracle", "driving", ("speed",), 0.5, embedded=False)
        return source, Frame(0.0, 0, {"speed": 1.0})

    def drive(self, guarding: Guarding, foresees: bool, folder: Path) -> None:
        path = folder / "speed.topics.yaml"
        path.write_text(MAPPING)
        oracle = Oracle(guarding, load_topics(path))
        with oracle.loop:
            for i in range(5):
                said = {"topic": "/speed", "time": i / 2, "data": float(i)}
                oracle.answer(json.dumps(said).encode())
            oracle.close("nobody is left")
