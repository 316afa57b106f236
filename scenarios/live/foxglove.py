"""Streams a running guarded loop to Foxglove, on the same topics as exported logs.

Foxglove connects to ws://127.0.0.1:8765. Its protocol has no authentication, so any
program on this machine can listen; messages from clients are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Decision
from forewarn.monitors.guarding.listening import Run
from forewarn.monitors.guarding.watch import Watch
from forewarn.plugins.contracts import Thing
from forewarn.scenarios import export
from forewarn.scenarios.live.viewer import Viewer

HOST, PORT = "127.0.0.1", 8765


def layout() -> Path:
    """Returns the path of the shipped layout, which can be imported into Foxglove."""
    return Path(str(files("forewarn.scenarios.live") / "assets" / "foxglove.json"))


class ToFoxglove(Viewer):
    """Streams one loop's runs to Foxglove.

    The server writes in its own thread, and drops messages for clients that are
    too slow to receive them.

    Args:
        port: The server's port; 0 for any free port.

    Raises:
        MissingDependency: The extra `foxglove` is not installed.
        InvalidInput: The port is taken.
    """

    def __init__(self, port: int = PORT) -> None:
        super().__init__()
        try:
            import foxglove
        except ImportError as error:
            raise MissingDependency("telling Foxglove", "foxglove") from error
        self._context: Any = foxglove.Context()
        self._channel: Any = foxglove.Channel
        try:
            self._server: Any = foxglove.start_server(
                name="forewarn", host=HOST, port=port, context=self._context
            )
        except (OSError, RuntimeError) as error:
            raise InvalidInput(
                f"cannot listen on {HOST}:{port}: {error}",
                mend="end any other run that is connected to Foxglove",
            ) from error
        self.port: int = self._server.port
        self._channels: dict[str, Any] = {}

    def began(self, run: Run) -> None:
        """Stores the watched laws; topics are created with the first frame."""
        if run.watch is None or run.policy is None:
            return
        self._policy = run.policy
        self._follow(run.scenic, run.policy.shadow)
        self._laws = [law.name for law in run.watch.laws]
        self._first = True

    def _show(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        if self._first:
            self._first = False
            self._begin(watch, frame)
        self._moment(watch, frame, decision)
        self._tell(frame, decision)
        self._draw(frame.time_s)

    def ended(self, facts: Mapping[str, Any]) -> None:
        """Forgets the run; its topics stay open until the next run begins."""
        self._scenic = None

    def close(self) -> None:
        """Stops the server."""
        self._server.stop()

    # -- messages ---------------------------------------------------------------------

    def _begin(self, watch: Watch, frame: Frame) -> None:
        for channel in self._channels.values():
            channel.close()
        vocabulary = watch.vocabulary
        seen = self._scenic is not None
        wanted = export.schemas(self._laws, frame.values, vocabulary, seen)
        self._channels = {
            topic: self._channel(topic, schema=schema, context=self._context)
            for topic, (_, schema) in wanted.items()
        }
        if self._scenic is not None:
            ground = export.ground(self._scenic.ground(), frame.time_s)
            self._say("/ground", ground, frame.time_s)

    def _moment(self, watch: Watch, frame: Frame, decision: Decision) -> None:
        time_s = frame.time_s
        risks = (
            (
                law.name,
                law.risk if law.point == law.point else None,
                law.left_s,
                [step.threshold for step in self._policy.steps_for(law.name)],
            )
            for law in watch.laws
        )
        for topic, _, said in export.moment(time_s, frame.values, risks, decision.kind):
            self._say(topic, said, time_s)

    def _scene(self, things: Sequence[Thing], time_s: float) -> None:
        for topic, _, said in export.scenes(things, time_s):
            self._say(topic, said, time_s)

    def _event(self, time_s: float, kind: str, text: str) -> None:
        self._say("/events", export.log(kind, text, time_s), time_s)

    def _say(self, topic: str, content: Mapping[str, Any], time_s: float) -> None:
        data = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
        self._channels[topic].log(data, log_time=round(time_s * 1e9))
