"""Results that can be converted to a pandas frame and plotted with matplotlib (extra
`plots`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from forewarn.abstractions.arguments import expect
from forewarn.abstractions.errors import MissingDependency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame


class Plotted(ABC):
    """A result with a table and a plot."""

    __slots__ = ()

    @abstractmethod
    def table(self) -> Iterable[Mapping[str, Any]]:
        """Returns the rows of the table."""

    @abstractmethod
    def draw(self, axes: Axes) -> None:
        """Draws the plot, with titles and units on the axes."""

    def frame(self) -> DataFrame:
        """Returns the table as a pandas frame."""
        try:
            import pandas
        except ImportError as error:
            raise MissingDependency("a pandas frame", "plots") from error
        return pandas.DataFrame(list(self.table()))

    def plot(self, axes: Axes | None = None) -> Axes:
        """Draws the plot and returns the axes, without opening a window or writing a
        file.

        Args:
            axes: The axes to draw on; by default, those of a new figure.
        """
        try:
            from matplotlib import axes as made
            from matplotlib import pyplot
        except ImportError as error:
            raise MissingDependency("plotting", "plots") from error
        if axes is not None:
            mend = "to save the plot, call result.plot().figure.savefig(path)"
            expect(axes, made.Axes, "axes", mend)
        else:
            axes = pyplot.subplots(layout="constrained")[1]
        self.draw(axes)
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            below = 0.5, -0.15
            axes.legend(loc="upper center", bbox_to_anchor=below, fontsize="small")
        return axes


MARKERS = "osD^vP*X<>"
"""A different marker for each law, so that laws can be distinguished without colour."""


def in_short(law: str) -> str:
    """Returns a law's name, truncated to 60 characters."""
    return law if len(law) <= 60 else f"{law[:59]}…"


def flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flattens nested mappings by joining their keys with underscores; an interval
    becomes two values.
    """
    found: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}_")
        elif isinstance(value, tuple | list):
            found |= {f"{prefix}{key}_low": value[0], f"{prefix}{key}_high": value[1]}
        else:
            found[f"{prefix}{key}"] = value
    return found
