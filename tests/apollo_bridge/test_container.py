"""The file for Apollo's container: Python 3.6, no Forewarn, never without a guard."""

from __future__ import annotations

import ast
import math
import socket
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")

from forewarn.apollo_bridge import channels, container
from forewarn.apollo_bridge.channels import messages
from forewarn.apollo_bridge.container import SIGNALS, Newest, Pad, run, signals
from forewarn.plugins.remote import client
from forewarn.standins.apollo.server import FakeCyber
from tests.apollo_bridge.doubles import eventually, message

FILE = Path(container.__file__)
KNOWN = messages(8)
PAD = channels.PLANNING_PAD


def test_the_file_has_the_syntax_of_python_3_6() -> None:
    ast.parse(FILE.read_text(), feature_version=(3, 6))


def test_the_file_imports_only_modules_of_python_3_6() -> None:
    found = set()
    for node in ast.walk(ast.parse(FILE.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    assert found == {"importlib", "math", "sys", "threading", "time", "typing"}


def newest(**chassis: Any) -> Newest:
    made = Newest()
    content = {"speed_mps": 5.0, "throttle_percentage": 10.0, **chassis}
    located = message(channels.LOCALIZATION, 1.0, 8)
    located.pose.heading = 0.0
    gains = located.pose.linear_acceleration
    gains.x, gains.y, gains.z = -2.0, 1.0, 9.81
    made.keep(message(channels.CHASSIS, 1.0, 8, **content), "chassis")
    made.keep(located, "localization")
    return made


def test_signals_are_in_the_vocabulary_s_units() -> None:
    found = signals(newest(brake_percentage=12.5, gear_location=1, driving_mode=1))
    assert (found["speed"], found["brake"], found["gear"]) == (18.0, 12.5, "drive")
    assert found["acceleration"] == -2.0 and found["braking"] is True
    assert found["manual_control"] is False and found["turn_signal"] == "off"
    assert found["chassis_age"] < 5 and "lights_age" not in found
    assert set(found) <= set(SIGNALS)


def test_values_that_are_not_numbers_are_omitted() -> None:
    found = signals(newest(speed_mps=math.nan))
    assert "speed" not in found and "brake" not in found
    assert signals(Newest()) == {}


class Wheel:
    """A pad whose messages are kept, on a clock of the test's."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.sent: list[Any] = []
        self.pad = Pad(
            self.sent.append, KNOWN[PAD.type], lambda: 100.0, lambda: self.now_s
        )

    @property
    def actions(self) -> list[int]:
        return [each.action for each in self.sent]

    def obey(self, *kinds: str) -> None:
        for kind in kinds:
            self.pad.obey({"decision": kind})
            self.now_s += 0.1


def test_a_stop_pad_message_is_repeated_until_release() -> None:
    wheel = Wheel()
    wheel.obey("proceed", "alert")
    assert wheel.actions == []
    wheel.obey(*["stop"] * 7, "slow")
    assert wheel.actions == [4, 4], "said again after half a second"
    wheel.obey("proceed", "proceed", "stop")
    assert wheel.actions == [4, 4, 5, 4]
    headers = [each.header.SerializeToString() for each in wheel.sent]
    assert len(set(headers)) == len(headers)


def test_without_a_guard_the_car_is_stopped() -> None:
    wheel, turns = Wheel(), iter(range(5))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    guard = client.GuardClient(address, "secret", SIGNALS)
    run(
        guard, newest(), wheel.pad, lambda: next(turns, None) is not None,
        lambda _: None,
    )  # fmt: skip
    assert wheel.actions[0] == 4


def test_the_script_runs_beside_apollo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cyber = FakeCyber()
    module = types.ModuleType("cyber_py3.cyber")
    for name in ("init", "Node", "shutdown", "is_shutdown"):
        setattr(module, name, getattr(cyber, name))
    monkeypatch.setitem(sys.modules, "cyber_py3", types.ModuleType("cyber_py3"))
    monkeypatch.setitem(sys.modules, "cyber_py3.cyber", module)
    monkeypatch.setitem(sys.modules, "client", client)
    for place, channel in (
        ("localization.proto.localization", channels.LOCALIZATION),
        ("canbus.proto.chassis", channels.CHASSIS),
        ("perception.proto.traffic_light_detection", channels.LIGHTS),
        ("planning.proto.pad_msg", PAD),
    ):
        made = types.ModuleType(f"modules.{place}_pb2")
        setattr(made, channel.type.rpartition(".")[2], KNOWN[channel.type])
        monkeypatch.setitem(sys.modules, f"modules.{place}_pb2", made)
    token = tmp_path / "token"
    token.write_text("secret\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    pads: list[bytes] = []
    cyber.read(PAD.name, pads.append)
    thread = threading.Thread(target=container.main, args=([address, str(token)],))
    thread.start()
    assert eventually(lambda: pads)
    cyber.shutdown()
    thread.join(20)
    assert not thread.is_alive()
    assert KNOWN[PAD.type].FromString(pads[0]).action == 4


def test_the_script_prints_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert container.main([]) == 2
    assert "usage" in capsys.readouterr().err
