"""Scenes beside a record: written as the run goes on, read back, and vouched for."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.listening import Run
from forewarn.plugins.contracts import Shape, Source, Thing
from forewarn.plugins.tiny import TinyWorld
from forewarn.scenarios.report.film import stills
from forewarn.scenarios.running import rendering
from forewarn.scenarios.running.scenery import (
    InvalidScene,
    SceneLog,
    Scenery,
    read_scene,
    scene_file,
)

SOURCE = Source("drawn", "driving", ("speed",), 0.1)


class Drawn:
    """A world that shows what it is told to."""

    def __init__(self, scenes: list[list[Thing]]) -> None:
        self._scenes: Iterator[list[Thing]] = iter(scenes)

    def ground(self) -> list[Shape]:
        return [Shape("lane", ((0.0, 0.0), (50.0, 0.004)), 3.5)]

    def things(self) -> list[Thing]:
        return next(self._scenes)


def car(name: str, x: float, state: str = "") -> Thing:
    kind = "ego" if name == "ego" else "vehicle"
    return Thing(name, kind, x, 0.0, 90.0, 4.5, 1.8, state)  # type: ignore[arg-type]


def write(path: Path, scenes: list[list[Thing]], frames: int | None = None) -> str:
    log = SceneLog(path, Drawn(scenes), "s", 7)
    log.began(Run("a run", SOURCE))
    for i in range(len(scenes) if frames is None else frames):
        log.frame(Frame(i / 10, i, {}), None, None)
    return log.close()


def test_what_was_seen_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.scene.jsonl"
    scenes = [
        [car("ego", 1.0), car("b", 20.0)],
        [car("ego", 2.0), car("b", 20.0)],
        [car("ego", 3.0), car("c", 9.5, "hit")],
    ]
    digest = write(path, scenes)
    found = read_scene(path, "s", 7)
    assert [list(m.things.values()) for m in found.moments] == scenes
    assert found.ground == (Shape("lane", ((0.0, 0.0), (50.0, 0.0)), 3.5),)
    assert found.sha256 == digest and found.problem == ""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert list(lines[2]["things"]) == ["ego"], "what stands still is not repeated"
    assert lines[3]["gone"] == ["b"]


def test_a_world_that_cannot_be_drawn_spoils_the_picture_only(tmp_path: Path) -> None:
    path = tmp_path / "a.scene.jsonl"
    digest = write(path, [[car("ego", 1.0)]], frames=3)
    found = read_scene(path, "s", 7)
    assert len(found.moments) == 1
    assert found.problem.startswith("StopIteration") and found.sha256 == digest


def test_what_is_not_finite_spoils_it_too(tmp_path: Path) -> None:
    path = tmp_path / "a.scene.jsonl"
    write(path, [[car("ego", float("nan"))]])
    assert "ValueError" in read_scene(path, "s", 7).problem


def test_a_cut_tail_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.scene.jsonl"
    write(path, [[car("ego", float(x))] for x in range(5)])
    path.write_bytes(path.read_bytes()[:-10])
    assert len(read_scene(path, "s", 7).moments) == 4


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace('"seed":7', '"seed":8'),
        lambda text: text.replace('"vehicle"', '"dragon"'),
        lambda text: text.replace('"lane"', '"sea"'),
        lambda text: text.replace("20.0", '"20"'),
        lambda text: text.replace("[", "{", 1),
        lambda text: "",
        lambda text: text.replace("forewarn.scene/1", "forewarn.scene/9"),
    ],
)
def test_invalid_scene_is_rejected(tmp_path: Path, spoil) -> None:  # type: ignore[no-untyped-def]
    from forewarn.abstractions.errors import InvalidInput

    path = tmp_path / "a.scene.jsonl"
    write(path, [[car("ego", 1.0), car("b", 20.0)]])
    path.write_text(spoil(path.read_text()))
    with pytest.raises(InvalidInput, match=r"a\.scene\.jsonl"):
        read_scene(path, "s", 7)


def test_scenes_of_another_run_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.scene.jsonl"
    write(path, [[car("ego", 1.0)]])
    with pytest.raises(InvalidScene, match="not belong to the run of t with seed 7"):
        read_scene(path, "t", 7)


def test_the_tiny_road_shows_the_gap_that_its_frames_tell() -> None:
    world = TinyWorld(lead=True)
    frame = world.reset(3)
    for _ in range(20):
        things = {thing.name: thing for thing in world.things()}
        ego, lead, light = things["ego"], things["lead"], things["light"]
        gap = lead.x - lead.length_m / 2 - (ego.x + ego.length_m / 2)
        assert gap == pytest.approx(frame.values["lead_distance"], abs=0.01)
        line = light.x - (ego.x + ego.length_m / 2)
        assert line == pytest.approx(frame.values["stop_line_distance"], abs=0.01)
        assert light.state == frame.values["traffic_light"]
        frame = world.step(None)
    world.close()


def test_scenes_stand_beside_the_record() -> None:
    record = Path("runs/s1-0123-000007.run.jsonl")
    assert scene_file(record) == Path("runs/s1-0123-000007.scene.jsonl")


class Camera:
    """A world that renders pictures, each brighter than the one before."""

    renders = True

    def __init__(self, shape: tuple[int, ...] = (300, 1000, 3)) -> None:
        self._shape, self._light = shape, 0

    def picture(self) -> Any:
        self._light += 16
        return np.full(self._shape, self._light, np.uint8)


def filmed(path: Path, camera: Camera, frames: int) -> Scenery:
    log = SceneLog(path, camera, "s", 7)
    log.began(Run("a run", SOURCE))
    for i in range(frames):
        log.frame(Frame(i / 20, i, {}), None, None)
    log.close()
    return read_scene(path, "s", 7)


def test_rendered_pictures_are_kept_small_and_ten_a_second(tmp_path: Path) -> None:
    found = filmed(tmp_path / "a.scene.jsonl", Camera(), 9)
    assert list(found.pictures) == [0, 2, 4, 6, 8] and not found.problem
    data = base64.b64decode(found.pictures[0])
    assert struct.unpack(">II", data[16:24]) == (250, 75) and len(data) < 400
    assert stills(found, [1, 2, 3, 8], 10_000) == [
        (0, found.pictures[0]), (1, found.pictures[2]), (3, found.pictures[8]),
    ]  # fmt: skip
    few = len(found.pictures[0]) + 50
    assert stills(found, range(9), few) == [(0, found.pictures[0])]


def test_pictures_that_cannot_be_kept_spoil_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = filmed(tmp_path / "a.scene.jsonl", Camera((300, 400)), 2)
    assert "not an RGB image" in found.problem and not found.moments
    monkeypatch.setattr(rendering, "MAX_RUN_CHARS", 700)
    found = filmed(tmp_path / "b.scene.jsonl", Camera(), 9)
    assert found.pictures and "more than 4 MB" in found.problem


def test_a_thin_picture_is_shrunk_too(tmp_path: Path) -> None:
    found = filmed(tmp_path / "a.scene.jsonl", Camera((2, 3000, 3)), 1)
    data = base64.b64decode(found.pictures[0])
    assert struct.unpack(">II", data[16:24]) == (300, 1)


VAST = b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR" + struct.pack(">II", 40_000, 40_000)


@pytest.mark.parametrize(
    "picture",
    [3, "<svg>", *(base64.b64encode(b).decode() for b in (b"GIF89a", VAST, VAST[:20]))],
)
def test_invalid_picture_is_rejected(tmp_path: Path, picture: object) -> None:
    path = tmp_path / "a.scene.jsonl"
    filmed(path, Camera(), 1)
    header, line = map(json.loads, path.read_text().splitlines())
    line["picture"] = picture
    path.write_text("".join(json.dumps(each) + "\n" for each in (header, line)))
    with pytest.raises(InvalidScene, match="a picture "):
        read_scene(path, "s", 7)
