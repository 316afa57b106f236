"""Tests of the bridge run against the stand-in."""

from tests.standins.carla.conftest import serve  # noqa: F401
