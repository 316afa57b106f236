"""What Autoware's topics say, a mapping of them, and oracles that listen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forewarn.monitors.guarding.policy import Policy
from forewarn.plugins.loop.guarding import Guarding
from forewarn.plugins.ros.oracle import Oracle, OracleServer
from forewarn.plugins.ros.topics import load_topics
from tests.plugins.remote.serving import POLICY, model

AUTOWARE = Path(__file__).parents[3] / "examples" / "autoware.topics.yaml"
EGO = "/localization/kinematic_state"
OBJECTS = "/perception/object_recognition/objects"
LIGHTS = "/perception/traffic_light_recognition/traffic_signals"


def pose(x: float, y: float = 0.0, turn: tuple[float, float] = (0.0, 1.0)) -> Any:
    z, w = turn
    return {
        "position": {"x": x, "y": y, "z": 0.0},
        "orientation": {"x": 0.0, "y": 0.0, "z": z, "w": w},
    }


def twist(forward: float, left: float = 0.0) -> Any:
    return {"linear": {"x": forward, "y": left, "z": 0.0}}


def odometry(x: float, speed: float) -> dict[str, Any]:
    return {"pose": {"pose": pose(x)}, "twist": {"twist": twist(speed)}}


def thing(where: Any, moves: Any, label: int = 1) -> dict[str, Any]:
    size = (0.6, 0.6) if label == 7 else (4.0, 2.0)
    return {
        "kinematics": {
            "initial_pose_with_covariance": {"pose": where},
            "initial_twist_with_covariance": {"twist": moves},
        },
        "shape": {"dimensions": {"x": size[0], "y": size[1], "z": 1.5}},
        "classification": [{"label": label, "probability": 0.9}],
    }


def lights(*colours: int) -> dict[str, Any]:
    return {"traffic_light_groups": [{"elements": [{"color": c} for c in colours]}]}


def event(topic: str, time_s: float, content: dict[str, Any]) -> dict[str, Any]:
    """As a node of ROSMonitoring's sends it."""
    return {**content, "topic": topic, "time": time_s}


@contextmanager
def listening(policy: Policy = POLICY, **parts: Any) -> Iterator[OracleServer]:
    """An oracle in a thread of this process, for Autoware's topics."""
    told = load_topics(AUTOWARE)
    oracle = Oracle(Guarding([model()], policy, **parts), told)
    with oracle.loop:
        server = OracleServer(oracle)
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.close()
            thread.join()
