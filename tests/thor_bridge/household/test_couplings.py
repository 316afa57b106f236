"""What happens by itself: heat, cold, water."""

from __future__ import annotations

from tests.thor_bridge.household.robot import Robot


def test_a_knob_lights_its_burner_and_heats_the_object_on_it() -> None:
    robot = Robot()
    knob = robot["StoveKnob"]
    (burner,) = knob["controlledObjects"]
    for kind in ("Pan", "Kettle", "Pot"):
        robot.world.take_out(robot.id(kind))
    robot.world.put_in(robot.id("Pan"), burner)
    robot.place("Potato", "Pan")
    robot.must("ToggleObjectOn", "StoveKnob")
    assert robot.world.objects[burner]["isToggled"]
    assert robot["Pan"]["temperature"] == "Hot"
    assert (robot["Potato"]["isCooked"], robot["Potato"]["temperature"]) == (
        True,
        "Hot",
    )
    robot.must("ToggleObjectOff", "StoveKnob")
    assert not robot.world.objects[burner]["isToggled"]


def test_heat_fades_with_time() -> None:
    robot = Robot()
    robot.place("Mug", "Microwave")
    robot.must("ToggleObjectOn", "Microwave")
    assert robot["Mug"]["temperature"] == "Hot"
    robot.must("ToggleObjectOff", "Microwave")
    for _ in range(38):
        robot.must("Pass")
    assert robot["Mug"]["temperature"] == "Hot"
    for _ in range(3):
        robot.must("Pass")
    assert robot["Mug"]["temperature"] == "RoomTemp"


def test_a_running_microwave_cannot_be_opened() -> None:
    robot = Robot()
    robot.must("ToggleObjectOn", "Microwave")
    assert not robot.do("OpenObject", "Microwave").success


def test_the_fridge_cools() -> None:
    robot = Robot()
    robot.place("Mug", "Fridge")
    robot.must("Pass")
    assert robot["Mug"]["temperature"] == "Cold"


def test_the_toaster_roasts_bread() -> None:
    robot = Robot()
    robot.must("SliceObject", "Bread")
    robot.place("BreadSliced", "Toaster")
    robot.must("ToggleObjectOn", "Toaster")
    assert robot["BreadSliced"]["isCooked"]


def test_the_coffee_machine_fills_a_mug() -> None:
    robot = Robot()
    robot.place("Mug", "CoffeeMachine")
    robot.must("ToggleObjectOn", "CoffeeMachine")
    mug = robot["Mug"]
    assert (mug["fillLiquid"], mug["temperature"]) == ("coffee", "Hot")


def test_running_water_fills_cleans_and_puts_out() -> None:
    robot = Robot("Bathroom1")
    robot.must("DirtyObject", "Cup")
    robot.must("ToggleObjectOn", "Candle")
    robot.place("Cup", "SinkBasin")
    robot.place("Candle", "SinkBasin")
    robot.must("Pass")
    assert robot["Cup"]["isDirty"]
    assert robot["Candle"]["isToggled"]
    robot.must("ToggleObjectOn", "Faucet")
    assert not robot["Cup"]["isDirty"]
    assert robot["Cup"]["fillLiquid"] == "water"
    assert not robot["Candle"]["isToggled"]
