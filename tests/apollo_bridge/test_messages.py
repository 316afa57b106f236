"""Our messages against the classes that others generated from Apollo's own files."""

from __future__ import annotations

import importlib
import math
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.apollo_bridge import channels
from forewarn.apollo_bridge.channels import (
    Channel,
    Edition,
    Service,
    descriptor_files,
    messages,
)

pytest.importorskip("google.protobuf", reason="google.protobuf is not installed")

FILES = Path(channels.__file__).parent / "protos"

# The generated classes come from a fork that made these its own.
DIVERGED = {"apollo.planning.PlanningCommand"}
# Apollo 9 changed it; the generated classes are older.
CHANGED_IN_9 = {"apollo.control.PadMessage"}


def generated() -> dict[str, Any]:
    """The descriptors of `wheelos-msgs`, by full name."""
    package = pytest.importorskip("wheelos_msgs")
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(package.__path__, "wheelos_msgs."):
        if module.name.endswith("_pb2"):
            file = importlib.import_module(module.name).DESCRIPTOR
            for descriptor in file.message_types_by_name.values():
                found[descriptor.full_name] = descriptor
    return found


def fields(descriptor: Any) -> Iterator[tuple[str, Any]]:
    for field in descriptor.fields:
        yield f"{descriptor.full_name}.{field.name}", field
    for nested in descriptor.nested_types:
        yield from fields(nested)


def described(field: Any) -> dict[str, Any]:
    """What of a field decides its bytes, and its value when it is not set."""
    default = field.default_value
    if isinstance(default, float) and math.isnan(default):
        default = "nan"
    kind = field.message_type or field.enum_type
    oneof = field.containing_oneof
    return {
        "number": field.number,
        "type": field.type,
        "label": field.label,
        "kind": kind and kind.full_name,
        "default": None if field.label == field.LABEL_REPEATED else default,
        "packed": bool(field.GetOptions().packed),
        "oneof": oneof and oneof.name,
    }


@pytest.mark.parametrize("edition", [8, 9])
def test_every_field_matches_the_generated_classes(edition: Any) -> None:
    theirs, compared = generated(), 0
    for name in messages(edition).names:
        skipped = name in DIVERGED or (edition == 9 and name in CHANGED_IN_9)
        if name not in theirs or skipped:
            assert skipped or ".external_command." in name, name
            continue
        for path, field in fields(messages(edition)[name].DESCRIPTOR):
            other = theirs[name].fields_by_name[field.name]
            assert described(field) == described(other), path
            if field.enum_type is not None:
                known = {v.name: v.number for v in other.enum_type.values}
                ours = {v.name: v.number for v in field.enum_type.values}
                if edition == 9 and name == "apollo.planning.PadMessage":
                    assert ours.pop("CLEAR_PLANNING") == 6  # new in 9
                assert ours.items() <= known.items(), path
            compared += 1
    assert compared > 250


def test_apollo_versions_differ_in_pad_messages_and_services() -> None:
    old, new = messages(8), messages(9)
    assert old["apollo.control.PadMessage"](action=2).SerializeToString().hex() == (
        "1802"
    )
    assert new["apollo.control.PadMessage"](action=2).SerializeToString().hex() == (
        "1002"
    )
    assert set(new.names) - set(old.names) == {
        "apollo.planning.PlanningCommand",
        *(n for n in new.names if n.startswith("apollo.external_command.")),
    }


def build(name: str, edition: Any = 9, **content: Any) -> Any:
    """A message with a header as the bridge sends it."""
    message = messages(edition)[name](**content)
    message.header.timestamp_sec = 12.5
    message.header.module_name = "guard"
    message.header.sequence_num = 1
    return message


HEADER = "0a1209000000000000294012056775617264" + "1801"

GOLDEN = [
    ("apollo.planning.PadMessage", {"action": "STOP"}, "1004"),
    ("apollo.planning.PadMessage", {"action": "RESUME_CRUISE"}, "1005"),
    ("apollo.external_command.ActionCommand", {"command_id": 7, "command": "STOP"},
     "1007" "1805"),
    ("apollo.external_command.ActionCommand", {"command": "START"}, "1806"),
    ("apollo.external_command.SpeedCommand", {"command_id": 8, "target_speed": 2.5},
     "1008" "190000000000000440"),
    ("apollo.external_command.SpeedCommand", {"is_restore_target_speed": True}, "2801"),
    ("apollo.external_command.LaneFollowCommand",
     {"command_id": 9, "end_pose": {"x": 1.0, "y": -2.0}, "target_speed": 3.0},
     "1009" "2a1209000000000000f03f1100000000000000c0" "410000000000000840"),
    ("apollo.external_command.CommandStatusRequest", {"command_id": 7}, "1007"),
    ("apollo.external_command.CommandStatus",
     {"command_id": 7, "status": "RUNNING", "message": "ok"}, "1007" "1801" "22026f6b"),
    ("apollo.control.PadMessage", {"action": "RESET"}, "1002"),
    ("apollo.monitor.SystemStatus",
     {"safety_mode_trigger_time": 2.0, "require_emergency_stop": True},
     "290000000000000040" "3001"),
    ("apollo.planning.PlanningCommand",
     {"command_id": 1, "target_speed": 5.0, "is_motion_command": True},
     "1001" "210000000000001440" "2801"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "expected"), GOLDEN)
def test_sent_messages_have_the_expected_bytes(
    name: str, content: dict[str, Any], expected: str
) -> None:
    assert build(name, **content).SerializeToString().hex() == HEADER + expected


def test_generated_classes_read_what_we_write() -> None:
    pad = pytest.importorskip("wheelos_msgs.planning_msgs.pad_msg_pb2").PadMessage
    read = pad.FromString(
        build("apollo.planning.PadMessage", action="STOP").SerializeToString()
    )
    assert (read.action, read.header.sequence_num) == (pad.STOP, 1)


def test_an_empty_chassis_has_no_speed() -> None:
    assert math.isnan(messages()["apollo.canbus.Chassis"]().speed_mps)


def test_the_descriptors_of_a_message_can_be_built_in_order() -> None:
    from google.protobuf.descriptor_pool import DescriptorPool

    for channel in (channels.PLANNING_PAD, *channels.INPUTS.values()):
        pool = DescriptorPool()
        for file in descriptor_files(messages()[channel.type]):
            pool.AddSerializedFile(file)
        assert pool.FindMessageTypeByName(channel.type).full_name == channel.type


def test_every_channel_has_a_message_type() -> None:
    for thing in vars(channels).values():
        if isinstance(thing, Channel):
            assert thing.type in messages(), thing.name
        if isinstance(thing, Service):
            assert thing.request in messages() and thing.response in messages()


def test_an_unknown_name_suggests_a_similar_one() -> None:
    with pytest.raises(InvalidInput, match="did you mean apollo.canbus.Chassis"):
        messages()["apollo.canbus.Chasis"]


def test_generated_classes_may_be_loaded_first_or_last() -> None:
    pytest.importorskip("wheelos_msgs")
    ours = "from forewarn.apollo_bridge.channels import messages; messages(8);"
    theirs = "import wheelos_msgs.planning_msgs.planning_pb2;"
    for program in (ours + theirs + "messages(9)", theirs + ours):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("edition", [8, 9])
def test_compiled_messages_match_the_proto_files(
    edition: Edition, tmp_path: Path
) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    protoc = pytest.importorskip(
        "grpc_tools.protoc", reason="grpcio-tools is not installed"
    )
    folders = [FILES / each for each in ("both", f"edition{edition}")]
    protos = [
        str(path.relative_to(folder))
        for folder in folders
        for path in sorted(folder.rglob("*.proto"))
    ]
    out = tmp_path / "compiled"
    where = [f"-I{folder}" for folder in folders]
    done = protoc.main(["protoc", *where, f"--descriptor_set_out={out}", *protos])
    assert done == 0
    again = FileDescriptorSet.FromString(out.read_bytes())
    shipped = (FILES / f"edition{edition}.binpb").read_bytes()
    kept = {file.name: file for file in FileDescriptorSet.FromString(shipped).file}
    assert {file.name: file for file in again.file} == kept
