"""What Foxglove hears: the topics that logs have, from a run that goes on."""

from __future__ import annotations

import json
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.listening import Listener
from tests.scenarios.live.serving import run

pytestmark = pytest.mark.needs("foxglove", "websockets")


def test_viewer_receives_every_topic_of_a_run(tmp_path: Path) -> None:
    from websockets.sync.client import connect
    from websockets.typing import Subprotocol

    from forewarn.scenarios.live.foxglove import HOST, ToFoxglove

    told = ToFoxglove(0)
    heard: dict[str, list[dict[str, Any]]] = {}
    offered: set[str] = set()
    listening, done = threading.Event(), threading.Event()

    def listen() -> None:
        protocols = [Subprotocol("foxglove.sdk.v1")]
        with connect(f"ws://{HOST}:{told.port}", subprotocols=protocols) as line:
            topics: dict[int, str] = {}
            listening.set()
            while not done.is_set():
                try:
                    message = line.recv(timeout=0.2)
                except TimeoutError:
                    continue
                if isinstance(message, str):
                    content = json.loads(message)
                    new = content.get("channels", [])
                    topics |= {channel["id"]: channel["topic"] for channel in new}
                    offered.update(topics.values())
                    wanted = [{"id": c["id"], "channelId": c["id"]} for c in new]
                    if wanted:
                        # Told of a channel, one may subscribe to it soon after.
                        time.sleep(0.05)
                        asked = {"op": "subscribe", "subscriptions": wanted}
                        line.send(json.dumps(asked))
                elif message[0] == 1:
                    (number,) = struct.unpack_from("<I", message, 1)
                    said = json.loads(message[13:])
                    heard.setdefault(topics[number], []).append(said)

    thread = threading.Thread(target=listen)
    thread.start()
    assert listening.wait(10)
    run(tmp_path, lambda: told, pace=20.0)
    done.set()
    thread.join()
    told.close()
    assert told.failures == 0
    assert {"/signals", "/decision", "/scene", "/tf"} <= set(heard)
    assert {"/ground", "/events", *heard} <= offered
    assert any(topic.startswith("/risk/") for topic in heard)
    assert all("speed" in each for each in heard["/signals"])
    for topic, messages in heard.items():
        if topic.startswith("/risk/"):
            known = [each for each in messages if each["risk"] is not None]
            assert all(e["low"] <= e["risk"] <= e["high"] for e in known) and known


def test_a_port_that_is_taken_is_refused_with_what_to_do() -> None:
    from forewarn.scenarios.live.foxglove import ToFoxglove

    first = ToFoxglove(0)
    with pytest.raises(InvalidInput, match="cannot listen on"):
        ToFoxglove(first.port)
    first.close()
    assert isinstance(first, Listener)


def test_the_layout_that_ships_shows_the_topics_that_there_are() -> None:
    from forewarn.scenarios.live.foxglove import layout

    text = layout().read_text()
    panels = json.loads(text)["configById"]
    for topic in ("/ground", "/scene", "/risk/", "/decision", "/events", "/signals"):
        assert topic in text

    def named(part: Any) -> set[str]:
        if isinstance(part, str):
            return {part}
        return named(part["first"]) | named(part["second"])

    assert named(json.loads(text)["layout"]) == set(panels)
