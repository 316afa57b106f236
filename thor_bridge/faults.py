"""What goes wrong on the way to a simulator, by name."""

from __future__ import annotations

from forewarn.abstractions.errors import ForewarnError


class SimulatorError(ForewarnError):
    """The simulator cannot go on; it was ended."""


class SimulatorHung(SimulatorError):
    """The simulator did not answer in time."""


class SimulatorDied(SimulatorError):
    """The simulator's process is gone."""


class NoBuild(SimulatorError):
    """The simulator's build is not here, and cannot be downloaded."""

    exit_status = 3


class OutOfStep(SimulatorError):
    """The simulator answered another action than the one that was sent."""
