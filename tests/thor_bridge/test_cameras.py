"""What cameras send through ai2thor's own controller, and that it agrees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.thor_bridge.household import pictures as picture
from forewarn.thor_bridge.household.actions import perform
from forewarn.thor_bridge.household.seeing import Camera
from forewarn.thor_bridge.household.world import World
from forewarn.thor_bridge.wire import connect, household_command

pytestmark = [pytest.mark.needs("ai2thor", "msgpack")]

ALL: dict[str, Any] = {
    "renderDepthImage": True,
    "renderInstanceSegmentation": True,
    "renderSemanticSegmentation": True,
    "renderNormalsImage": True,
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        with connect("Kitchen1", headless=False, width=160, height=120, **ALL) as given:
            yield given


@pytest.fixture
def controller(started: Any) -> Any:
    started.reset("Kitchen1")
    return started


def facing(kind: str) -> World:
    """A world whose robot looks at a thing of a kind, level, from nearby."""
    world = World(scene="Kitchen1")
    perform(world, {"action": "Initialize"})
    thing = next(t for t in world.objects.values() if t["objectType"] == kind)
    told = perform(
        world,
        {"action": "GetInteractablePoses", "objectId": thing["objectId"],
         "horizons": [0.0], "standings": [True]},
    ).returned  # fmt: skip
    assert told
    outcome = perform(world, {"action": "TeleportFull", **told[len(told) // 2]})
    assert outcome.success
    assert world.objects[thing["objectId"]]["visible"]
    return world


def test_every_kind_of_frame_has_ai2thors_shape_and_type(controller: Any) -> None:
    event = controller.step("AddThirdPartyCamera", fieldOfView=60,
                            position={"x": -2, "y": 2.2, "z": -2},
                            rotation={"x": 30, "y": 45, "z": 0})  # fmt: skip
    picture_of, plane = (120, 160, 3), (120, 160)
    for frame, others, shape, kind in (
        (event.frame, event.third_party_camera_frames, picture_of, np.uint8),
        (event.depth_frame, event.third_party_depth_frames, plane, np.float32),
        (event.normals_frame, event.third_party_normals_frames, picture_of, np.uint8),
        (event.instance_segmentation_frame,
         event.third_party_instance_segmentation_frames, picture_of, np.uint8),
        (event.semantic_segmentation_frame,
         event.third_party_semantic_segmentation_frames, picture_of, np.uint8),
    ):  # fmt: skip
        assert [each.shape for each in (frame, *others)] == [shape, shape]
        assert {each.dtype for each in (frame, *others)} == {np.dtype(kind)}
    (camera,) = event.metadata["thirdPartyCameras"]
    assert (camera["thirdPartyCameraId"], camera["fieldOfView"]) == (0, 60)
    assert set(event.instance_masks) <= set(event.object_id_to_color)
    fridge = next(name for name in event.instance_masks if name.startswith("Fridge"))
    mask = event.third_party_instance_masks[0]
    assert event.instance_masks[fridge].shape == mask[fridge].shape == plane
    assert (event.class_masks["Fridge"] == event.instance_masks[fridge]).all()
    left, top, right, bottom = event.instance_detections2D[fridge]
    assert 0 <= left < right < 160 and 0 <= top < bottom < 120


def test_a_headless_controller_has_frames() -> None:
    size: dict[str, Any] = {"width": 64, "height": 48}
    with connect(
        "Bathroom1", player=household_command(), headless=True, **size
    ) as blind:
        assert blind.last_event.frame.shape == (48, 64, 3)
        assert blind.step("RotateRight").frame.dtype == np.uint8


def test_metadata_alone_is_to_be_had() -> None:
    with connect("Kitchen1", headless=True) as fast:
        assert fast.step("RotateRight").frame is None


def test_a_script_moves_a_camera_of_its_own(controller: Any) -> None:
    view = controller.step("GetMapViewCameraProperties").metadata["actionReturn"]
    above = controller.step("AddThirdPartyCamera", **view)
    first = above.third_party_camera_frames[0]
    far = above.third_party_depth_frames[0]
    assert np.median(far) == pytest.approx(view["position"]["y"], abs=0.11)
    event = controller.step("UpdateThirdPartyCamera", thirdPartyCameraId=0,
                            position={"x": 1, "y": 1, "z": 1})  # fmt: skip
    assert event.metadata["thirdPartyCameras"][0]["position"]["x"] == 1
    assert (event.third_party_camera_frames[0] != first).any()
    assert not controller.step("UpdateThirdPartyCamera", thirdPartyCameraId=4)
    controller.reset("Kitchen1")
    assert controller.last_event.metadata["thirdPartyCameras"] == []


def test_depth_is_the_distance_to_what_is_there() -> None:
    world = facing("Fridge")
    camera = picture.own_camera(world)
    seen = picture.look(world, camera)
    rows = list(world.objects.values())
    shown = {rows[row]["objectType"] for row in np.unique(seen.row) if row >= 0}
    assert "Fridge" in shown
    number = next(i for i, t in enumerate(rows) if t["objectType"] == "Fridge")
    low = world.shapes.centers[number] - world.shapes.sizes[number] / 2
    high = world.shapes.centers[number] + world.shapes.sizes[number] / 2
    ahead = camera.axes()[2]
    # No pixel of it is nearer than its nearest corner, along the camera's axis.
    corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
    along = (corners - camera.place) @ ahead
    far = seen.far[seen.row == number]
    assert along.min() - 1e-3 <= far.min() <= far.max() <= along.max() + 1e-3


def test_what_is_shut_in_shows_when_the_door_opens() -> None:
    world = facing("Fridge")
    fridge = next(t for t in world.objects.values() if t["objectType"] == "Fridge")
    rows = list(world.objects)
    x, y, z = world.shapes.centers[rows.index(fridge["objectId"])]
    egg = next(t for t in world.objects.values() if t["objectType"] == "Egg")
    world.move(egg["objectId"], x, y, z)
    world.put_in(egg["objectId"], fridge["objectId"])
    inside = {rows.index(egg["objectId"])}

    def shown() -> set[int]:
        return inside & set(
            np.unique(picture.look(world, picture.own_camera(world)).row).tolist()
        )

    assert not shown()
    perform(world, {"action": "OpenObject", "objectId": fridge["objectId"]})
    assert shown()


@pytest.mark.parametrize(
    ("turn", "ahead"),
    [((0, 0, 0), (0, 0, 1)), ((0, 90, 0), (1, 0, 0)), ((90, 0, 0), (0, -1, 0))],
)
def test_axes_are_unitys(
    turn: tuple[float, float, float], ahead: tuple[float, float, float]
) -> None:
    right, up, forward = Camera((0.0, 0.0, 0.0), turn).axes()
    assert forward == pytest.approx(ahead, abs=1e-9)
    assert np.cross(right, up) == pytest.approx(-forward) or np.cross(
        forward, right
    ) == pytest.approx(up)
    rolled = Camera((0.0, 0.0, 0.0), (*turn[:2], 90.0)).axes()
    assert rolled[0] == pytest.approx(up, abs=1e-9)
    assert math.isclose(float(np.linalg.norm(rolled[1])), 1.0)
