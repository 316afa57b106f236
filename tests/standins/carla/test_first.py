"""A client meets the stand-in: the handshake, a map, a car, ticks."""

from __future__ import annotations

from tests.standins.carla.clients import Serve


def test_a_client_drives_a_car(serve: Serve) -> None:
    told = serve("--map", "crossing").script(
        """
        synchronous()
        car = spawn()
        car.apply_control(carla.VehicleControl(throttle=0.5))
        frames = [world.tick() for _ in range(40)]
        snapshot = world.get_snapshot()
        tell(frames)
        tell(car.get_velocity().length())
        tell(snapshot.find(car.id).get_transform().location.x)
        tell(car.get_location().x - world.get_map().get_spawn_points()[0].location.x)
        tell(world.get_map().name)
        """
    )
    frames, speed, _, way, name = told
    assert frames == list(range(frames[0], frames[0] + 40))
    assert abs(speed - 40 * 0.05 * 0.5 * 4.0) < 1e-4
    assert abs(abs(way) - speed * speed / (2 * 0.5 * 4.0)) < 1e-3
    assert name == "Carla/Maps/crossing"
