"""CARLA's recorder and replayer: its logs, its answers, and logs of strangers."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.standins.carla import logs
from forewarn.standins.carla.actors import Refusal
from forewarn.standins.carla.logs import BadLog, Log
from tests.standins.carla.clients import Serve, Standin

pytest.importorskip("carla", reason="carla has wheels for Python 3.10 to 3.12 only")


# -- a log by hand, as CARLA's documentation lays it out ------------------------------


def text(value: str) -> bytes:
    return struct.pack("<H", len(value)) + value.encode()


def packet(kind: int, body: bytes) -> bytes:
    return struct.pack("<BI", kind, len(body)) + body


def many(kind: int, *records: bytes) -> bytes:
    return packet(kind, struct.pack("<H", len(records)) + b"".join(records))


def added(number: int, kind: int, name: str, x: float, **attributes: str) -> bytes:
    return (
        struct.pack("<IB6fI", number, kind, x, -200.0, 0.0, 0.0, 0.0, 90.0, 7)
        + text(name)
        + struct.pack("<H", len(attributes))
        + b"".join(b"\x04" + text(k) + text(v) for k, v in attributes.items())
    )


def frame(number: int, elapsed: float, *packets: bytes) -> bytes:
    start = packet(0, struct.pack("<Qdd", number, 0.5, elapsed))
    return start + b"".join(packets) + packet(1, b"")


def position(number: int, x: float) -> bytes:
    return struct.pack("<I6f", number, x, -200.0, 0.0, 0.0, 0.0, 90.0)


HEAD = (
    struct.pack("<H", 1) + text("CARLA_RECORDER") + struct.pack("<q", 1_550_000_000)
    + text("Carla/Maps/tee")
)  # fmt: skip
FIRST = frame(
    1, 0.0,
    packet(20, struct.pack("<d", 3.0)),
    many(2, added(24, 0, "spectator", 0.0),
         added(185, 1, "vehicle.tesla.model3", 1000.0, role_name="hero"),
         added(186, 1, "vehicle.citroen.c3", 3000.0, role_name="autopilot"),
         added(187, 1, "vehicle.no.such", 5000.0),
         added(188, 2, "walker.pedestrian.0003", 6000.0),
         added(189, 5, "sensor.other.imu", 0.0)),
    many(3), many(4, struct.pack("<II", 189, 185)), many(5),
    many(6, position(185, 1000.0), position(186, 3000.0), position(187, 5000.0)),
    many(7, struct.pack("<I?fB", 3, True, 1.5, 2)),
    many(8, struct.pack("<I3f?i", 185, -0.25, 0.5, 0.0, False, 2)),
    many(9, struct.pack("<If", 188, 1.25)),
    many(10, struct.pack("<II", 185, 0x22)),
    packet(14, struct.pack("<d", 0.01)),
    many(15, b"\0" * 90),  # physics, which nobody looks into
    packet(21, b"\x07\0" + b"?" * 40), packet(139, b"somebody's own"),
)  # fmt: skip
HIT = struct.pack("<III??", 0, 185, 186, True, False)
SECOND = frame(2, 0.5, many(5, HIT), many(6, position(185, 2000.0)))
THIRD = frame(3, 1.0, many(3, struct.pack("<I", 186)), many(5, HIT),
              many(6, position(185, 2000.0)))  # fmt: skip
WHOLE = HEAD + FIRST + SECOND + THIRD


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with opened(tmp_path, WHOLE) as found:
        yield found


def opened(folder: Path, data: bytes) -> Log:
    path = folder / "a.log"
    path.write_bytes(data)
    return Log(path)


def test_a_recorder_log_of_carla_is_read(log: Log) -> None:
    assert (log.map, log.version, log.date_s) == ("Carla/Maps/tee", 1, 1_550_000_000)
    assert (log.frames, log.duration_s) == (3, 1.0)
    first, second, third = log
    hero = list(first.added())[1]
    assert (hero.number, hero.name) == (185, "vehicle.tesla.model3")
    assert hero.at == (10.0, -2.0, 0.0, 0.0, 90.0, 0.0)
    assert hero.attributes == ((4, "role_name", "hero"),)
    assert first.records(logs.LIGHTS) == [(3, True, 1.5, 2)]
    assert first.records(logs.PEDALS) == [(185, -0.25, 0.5, 0.0, False, 2)]
    assert second.records(logs.POSITIONS) == [
        (185, 2000.0, -200.0, 0.0, 0.0, 0.0, 90.0)
    ]
    assert third.records(logs.REMOVED) == [(186,)]


def bad_logs() -> Iterator[tuple[str, bytes, str]]:
    yield "empty", b"", "not a CARLA recorder"
    yield "text", b"hello, this is no log at all", "not a CARLA recorder"
    yield "head", HEAD[:-3], "not a CARLA recorder"
    yield "torn packet", WHOLE[:-50], "the recording is damaged at byte"
    yield "torn head", WHOLE + b"\x00\x18", "the recording is damaged at byte"
    yield "no end", HEAD + FIRST[:-5], "is truncated"
    yield "no start", HEAD + packet(6, b"\0\0"), "a packet is not inside a frame"
    yield "two starts", HEAD + FIRST[:-5] + SECOND, "a packet is not inside a frame"
    yield "huge packet", HEAD + FIRST[:-5] + b"\x06\xff\xff\xff\xff", "is too large"
    yield "backwards", HEAD + FIRST + THIRD + SECOND, "a frame at 0.5 s follows"
    yield "no time", HEAD + frame(1, float("nan")), "a frame at nan s follows"
    yield "endless", HEAD + frame(1, float("inf")), "a frame at inf s follows"


@pytest.mark.parametrize(
    ("data", "said"),
    [each[1:] for each in bad_logs()],
    ids=[each[0] for each in bad_logs()],
)
def test_incomplete_log_is_rejected(data: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadLog, match=f"a.log: .*{said}"):
        opened(tmp_path, data)


@pytest.mark.parametrize(
    "body",
    [b"", b"\x01", b"\x05\x00abc", b"\xff\xff" + b"x" * 100],
    ids=["empty", "no count", "short", "many"],
)
def test_packets_that_declare_too_large_a_size_are_rejected(
    body: bytes, tmp_path: Path
) -> None:
    for kind in (logs.ADDED, logs.POSITIONS, logs.LIGHTS):
        data = HEAD + frame(1, 0.0, packet(kind, body)) + SECOND
        with opened(tmp_path, data) as found:
            first = next(iter(found))
            with pytest.raises(BadLog):
                list(first.added() if kind == logs.ADDED else first.records(kind))


def test_links_pipes_and_folders_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "whole").write_bytes(WHOLE)
    (tmp_path / "link").symlink_to(tmp_path / "whole")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "folder", "pipe"):
        with pytest.raises(BadLog):
            Log(tmp_path / name)


@pytest.mark.parametrize("rounds", [200, pytest.param(3000, marks=pytest.mark.soak)])
def test_altered_logs_are_read_or_rejected(rounds: int, tmp_path: Path) -> None:
    from forewarn.standins.carla.recordings import Recordings
    from tests.standins.carla.made import made_server

    luck = random.Random(3)
    said: list[str] = []
    server = made_server("tee")
    world = server.world
    recordings = Recordings(tmp_path, said.append)
    played = 0
    for n in range(rounds):
        data = bytearray(WHOLE)
        for _ in range(luck.randrange(1, 5)):
            data[luck.randrange(len(HEAD), len(data))] = luck.randrange(256)
        if luck.random() < 0.2:
            del data[luck.randrange(len(data)) :]
        (tmp_path / "a.log").write_bytes(data)
        try:
            log = recordings.open("a.log")
        except Refusal:
            continue
        played += 1
        recordings.play(world, log, 0.0, log.duration_s)
        before = world.frame
        for _ in range(30):
            world.tick()
        assert world.frame == before + 30
        recordings.end_replay(world, keep=False)
        for number in [n for n in world.guests]:
            world.destroy(number)
    assert played > rounds // 10
    assert said, "some of it only shows when it is played"
    recordings.close(world)


# -- with CARLA's client --------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def standin(serve: Serve, folder: Path) -> Standin:
    return serve("--map", "tee", "--recordings", str(folder), "--traffic", "1500")


def test_a_drive_is_recorded_and_played_back(standin: Standin, folder: Path) -> None:
    body = """
    client.load_world("tee")
    world = client.get_world()
    synchronous()
    car = spawn(role_name="hero")
    walker = spawn("walker.pedestrian.0002", point=9)
    world.tick()
    tell(client.start_recorder("drive.log", True))
    car.apply_control(carla.VehicleControl(throttle=0.8, steer=0.02))
    car.set_light_state(carla.VehicleLightState.LowBeam)
    walker.apply_control(carla.WalkerControl(carla.Vector3D(1, 0, 0), 1.5))
    light = world.get_actors().filter("traffic.traffic_light*")
    light = light[0] if len(light) else None
    def seen(actor):
        at = actor.get_transform()
        return [at.location.x, at.location.y, at.rotation.yaw]
    first = []
    for _ in range(200):
        world.tick()
        cars = world.get_actors().filter("vehicle.*")
        first.append([seen(car), seen(walker), len(cars), str(light and light.state)])
    other = spawn(point=30)
    world.tick()
    client.stop_recorder()
    world.tick()
    number = car.id
    car.destroy(); walker.destroy(); other.destroy()
    world.tick()
    tell(client.replay_file("drive.log", 0.0, 0.0, number))
    world.tick()
    car = [a for a in world.get_actors().filter("vehicle.*")
           if a.attributes["role_name"] == "hero"][0]
    walker = world.get_actors().filter("walker.pedestrian.0002")[0]
    tell([car.id == number, car.get_control().throttle, int(car.get_light_state())])
    worst = 0.0
    for n in range(1, 190):
        then = first[n]
        cars = world.get_actors().filter("vehicle.*")
        now = [seen(car), seen(walker), len(cars), str(light and light.state)]
        assert now[2:] == then[2:], (n, now, then)
        worst = max([worst] + [abs(a - b) for m in (0, 1)
                               for a, b in zip(now[m], then[m])])
        world.tick()
    tell([worst, car.get_velocity().length()])
    for _ in range(15):
        world.tick()
    tell(len([a for a in world.get_actors() if a.id == number]))
    """
    path, said, (same, throttle, lamps), (worst, speed), left = standin.script(body)
    assert path == str(folder / "drive.log")
    assert "Total time recorded: 10\n" in said
    assert f"Replaying File: {path}\n" in said
    assert same and throttle == pytest.approx(0.8) and lamps == 2
    assert worst < 1e-3
    assert speed == 0.0, "as CARLA says of whom a replay moves"
    assert left == 1, "whom a log brought stays when it is over"


def test_replay_begins_and_ends_at_the_given_times(
    standin: Standin, folder: Path
) -> None:
    (folder / "hand.log").write_bytes(WHOLE)
    body = """
    client.load_world("tee")
    world = client.get_world()
    synchronous(0.1)
    def heroes():
        world.tick()
        return [round(a.get_location().x, 3) for a in
                world.get_actors().filter("vehicle.tesla.model3")]
    client.replay_file("hand.log", 0.2, 0.0, 0)
    tell(heroes())
    client.stop_replayer(False)
    tell(heroes())
    client.replay_file("hand.log", -1.0, 0.3, 0)
    tell([heroes() for _ in range(5)])
    client.stop_replayer(True)
    """
    begun, stopped, whole = standin.script(body)
    assert begun == [16.0] and stopped == []
    assert whole == [[12.0], [14.0], [16.0], [16.0], [16.0]], "0.3 s of it"


def test_a_log_of_another_map_loads_it(standin: Standin, folder: Path) -> None:
    (folder / "hand.log").write_bytes(WHOLE)
    (folder / "town.log").write_bytes(WHOLE.replace(b"Maps/tee", b"Maps/TWN"))
    body = """
    world = client.load_world("crossing")
    said = client.replay_file("hand.log", 0.0, 0.0, 0)
    time.sleep(0.5)
    world = client.get_world()
    tell([said, world.get_map().name, len(world.get_actors().filter("*model3"))])
    try:
        client.replay_file("town.log", 0.0, 0.0, 0)
    except RuntimeError as error:
        tell(str(error))
    """
    (said, name, heroes), refused = standin.script(body)
    assert "Loading map Carla/Maps/tee\n" in said
    assert (name, heroes) == ("Carla/Maps/tee", 1)
    assert "there is no map 'TWN'" in refused


def test_recording_names_stay_in_the_folder_and_other_files_are_rejected(
    standin: Standin, folder: Path
) -> None:
    (folder / "torn.log").write_bytes(WHOLE[:-20])
    (folder / "notes.txt").write_text("not a log")
    os.mkfifo(folder / "pipe")
    body = """
    def tried(call, *arguments):
        try:
            return call(*arguments)
        except RuntimeError as error:
            return "refused: " + str(error)
    names = ["../out.log", "/etc/passwd", "a/b.log", "..", "", ".hidden",
             "c:log", "a" * 200]
    tell([tried(client.start_recorder, name) for name in names]
         + [tried(client.replay_file, name, 0.0, 0.0, 0) for name in names]
         + [tried(client.show_recorder_file_info, name, True) for name in names])
    tell([tried(client.start_recorder, "notes.txt"),
          tried(client.start_recorder, "pipe"),
          tried(client.replay_file, "torn.log", 0.0, 0.0, 0),
          tried(client.show_recorder_file_info, "torn.log", False)])
    tell([client.show_recorder_file_info("none.log", False),
          client.replay_file("none.log", 0.0, 0.0, 0)])
    tell(world.get_map().name)
    """
    outside, refused, missing, name = standin.script(body)
    assert all("is not a valid name for a recording" in each for each in outside)
    assert all("not overwritten" in each for each in refused[:2])
    assert all("the recording is damaged at byte" in each for each in refused[2:])
    assert all("not found on server" in each for each in missing)
    assert name, "the server goes on"
    assert (folder / "notes.txt").read_text() == "not a log"
    assert not (folder.parent / "out.log").exists()


def test_a_log_can_be_read_while_it_is_written(standin: Standin) -> None:
    body = """
    client.load_world("tee")
    world = client.get_world()
    synchronous()
    client.start_recorder("now.log")
    tell(len([world.tick() for _ in range(5)]))
    tell(client.show_recorder_file_info("now.log", True)[-40:])
    client.load_world("tee")
    tell(client.show_recorder_file_info("now.log", False)[-40:])
    """
    _, told, end = standin.script(body)
    assert "Frames: 4\n" in told, "the last one is not over yet"
    assert "Frames: 5\n" in end, "another world ends a recording"


def test_a_recording_ends_at_its_size_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forewarn.standins.carla.recordings import Recordings
    from tests.standins.carla.made import made_server

    monkeypatch.setattr(logs, "LARGEST", (1 << 20) + 20_000)
    said: list[str] = []
    world = made_server("tee").world
    recordings = Recordings(tmp_path, said.append)
    path = recordings.record(world, "a.log")
    for _ in range(1000):
        world.tick()
    assert len(said) == 1 and "a.log was stopped" in said[0]
    assert 15_000 < path.stat().st_size < 25_000
    with recordings.open("a.log") as log:
        assert 5 < log.frames < 1000
    recordings.close(world)


def test_without_a_folder_recordings_are_deleted_with_the_server(serve: Serve) -> None:
    standin = serve("--map", "tee", "--kinematic")
    (path,) = standin.script("""
    synchronous()
    path = client.start_recorder("a.log")
    world.tick()
    tell(path)
    """)
    assert Path(path).exists()
    standin.process.terminate()
    standin.process.wait(10)
    assert not Path(path).parent.exists()
