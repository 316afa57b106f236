"""A world that plays recorded drives from CSV, Parquet and MCAP files and ROS 2 bags.

Actions have no effect on a recorded drive. Use this world to collect traces, learn
models, monitor laws, and measure a guard in shadow mode. Seed n selects the n-th file
in alphabetical order, so that ranges of seeds separate training logs from held-out
logs.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal, Self
from weakref import finalize

import numpy as np
from pydantic import Field

from forewarn.abstractions.errors import InvalidInput, mend_of, naming, near_miss
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.lines import check_count, first_line
from forewarn.abstractions.readers.foreign import (
    foreign_rows,
    is_foreign,
    told_messages,
)
from forewarn.abstractions.readers.tabular import read_table
from forewarn.abstractions.vocabularies.signals import named_unit
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.monitors.guarding.decision import Action
from forewarn.monitors.laws.clocking import regular_period
from forewarn.plugins.actions import Actions, ActionSpec
from forewarn.plugins.columns import Column, with_columns
from forewarn.plugins.contracts import Example, Replacing, Source, SteppedWorld
from forewarn.plugins.driving.foresight import Foresight, lacking
from forewarn.plugins.ros.topics import TopicMap, Topics, load_topics

MOST_HELD_S = 1.0
"""The maximum time in seconds for which a row is valid; a longer gap is an error."""

_JITTER = 0.2  # tolerated delay of a row as a fraction of the period

Period = Annotated[float, Field(gt=0.001, le=60)]


_EXAMPLES = 20


class RecordedWorld(SteppedWorld):
    """A base class for worlds that play files, in which actions have no effect.

    Args:
        files: A path, in which `*` can match several files.
    """

    actions = Actions(ActionSpec("recorded"))

    def __init__(self, files: str) -> None:
        self._paths = sorted(Path(name) for name in glob(files))
        if not self._paths:
            mend = "a path that begins with $here/ is relative to the scenario file"
            if Path(files).parent.is_dir() and "*" not in files:
                mend = mend_of(FileNotFoundError(), Path(files))
            raise InvalidInput(f"no file matches {files!r:.200}", mend=mend)

    @property
    def episodes(self) -> int:
        """The number of recorded drives."""
        return len(self._paths)

    @property
    def names(self) -> list[str]:
        """The names of the recorded files."""
        return [path.name for path in self._paths]

    def move(self, action: Action | None) -> None:
        """Does nothing, because a recording cannot be changed."""

    def actuator(self) -> LogActuator:
        return LogActuator()

    @classmethod
    def of(cls, files: Mapping[str, bytes], **settings: Any) -> Self:
        """Creates a world from file contents; the files are deleted with the world.

        Args:
            files: The contents by file name.
            settings: The settings other than `files`.
        """
        folder = TemporaryDirectory()
        for name, content in files.items():
            (Path(folder.name) / name).write_bytes(content)
        world = cls(files=f"{folder.name}/*", **settings)
        finalize(world, folder.cleanup)
        return world


class LogWorld(RecordedWorld):
    """A world that plays recorded drives; each file is an episode.

    Args:
        files: A path, in which `*` can match several files: CSV, `.parquet`, `.mcap` or
            `.db3` files, or folders with a ROS 2 bag.
        columns: For each column, the name of its signal, or a mapping with the signal
            and its encoding. Columns that have the name of a signal need no entry;
            other columns without an entry are ignored. The column of a message field is
            named `/topic.field.field`.
        topics: A file that maps the topics of bags to signals, instead of `columns`.
            The file also defines the vocabulary and the time between frames.
        vocabulary: The vocabulary of the signals: `driving`, `household` or a file.
        time: The column that contains the time. If null, rows are `period_s` apart.
        time_unit: The unit of the time column.
        period_s: The time between frames in seconds; each frame contains the latest
            row. By default, it is the time between rows, which must be regular.
        blanks: The meaning of an empty cell: unknown (`absent`), which is an error, or
            `none`.
    """

    @staticmethod
    def example() -> Example:
        """Returns an example with generated logs of a car that comes to a stop."""
        return Example(make=_example)

    def __init__(
        self,
        *,
        files: str,
        columns: dict[str, str | Column] | None = None,
        topics: str | None = None,
        vocabulary: str = "driving",
        time: str | None = "time_s",
        time_unit: Literal["s", "ms", "min", "h"] = "s",
        period_s: Period | None = None,
        blanks: Literal["absent", "none"] = "absent",
    ) -> None:
        super().__init__(files)
        self._topics = None if topics is None else load_topics(Path(topics))
        if self._topics is None:
            self._vocabulary = with_columns(load_vocabulary(vocabulary), columns or {})
        elif columns:
            raise InvalidInput("`columns` and `topics` cannot be combined")
        else:
            self._vocabulary = self._topics.vocabulary
            period_s = period_s or self._topics.period_s
        self._columns = tuple(columns or ())
        self._time, self._period_s, self._blanks = time, period_s, blanks
        self._factor = float(named_unit(time_unit).factor)
        self._provides = (
            self._signals(self._paths[0])
            if self._topics is None
            else self._topics.provides
        )
        first = self._read(self._paths[0])
        period_s = period_s or regular_period(np.array([at for at, _ in first]))
        if period_s is None:
            raise InvalidInput(
                "the rows of the log are not evenly spaced in time",
                source=str(self._paths[0]),
                mend="set `period_s` to the time between frames",
            )
        self._foresight: tuple[str, ...] = ()
        if self._vocabulary.name == "driving":
            self._foresight = lacking(self._provides)
        provides = (*self._provides, *self._foresight)
        name = self._vocabulary.name
        self.source = Source("log", name, provides, period_s, fixed=True)

    def begin(self, seed: int) -> None:
        if seed >= self.episodes:
            raise InvalidInput(
                f"the seed is too high: there are only {self.episodes} logs",
                mend=f"use seeds from 0 to {self.episodes - 1}; --seed is the first "
                "seed, and --episodes the number of episodes",
            )
        self._path = self._paths[seed]
        self._rows = self._read(self._path)
        gaps = np.diff([at for at, _ in self._rows])
        usual_s = float(np.median(gaps)) if gaps.size else 0.0
        self._shortest_s = float(gaps.min(initial=np.inf))
        self._late_s = _JITTER * min(usual_s, self.source.period_s)
        self._next = 0
        self._ahead = Foresight(self.source.period_s)

    def values(self) -> Mapping[str, Any]:
        """Returns the values of the latest row."""
        period_s, rows, time_s = self.source.period_s, self._rows, self.time_s
        by_s = time_s + self._late_s
        while self._next < len(rows) and rows[self._next][0] <= by_s:
            self._next += 1
        at_s, values = rows[self._next - 1]
        if time_s - at_s > max(MOST_HELD_S, period_s):
            mend = "split the file into two logs at this gap"
            if self._shortest_s > max(MOST_HELD_S, period_s):
                mend = (
                    f"all rows are at least {self._shortest_s:g} s apart: check "
                    "`time_unit` and `period_s`"
                )
            raise InvalidInput(
                f"the log has no rows between {at_s:g} s and {time_s:g} s",
                source=str(self._path),
                mend=mend,
            )
        blank = [name for name in self._provides if name not in values]
        if blank:
            raise InvalidInput(
                f"at {at_s:g} s, there is no value for {', '.join(blank)}",
                source=str(self._path),
                mend="set `blanks: none` if an empty cell means that there was nothing "
                "to measure, such as no vehicle ahead",
            )
        if rows[-1][0] < by_s + period_s - 2.0 * self._late_s:
            self.over = "the log is over"
        if self._foresight:
            values = {**values, **self._ahead.worked_out(self._foresight, values)}
        return values

    def _signals(self, path: Path) -> tuple[str, ...]:
        """Returns the signals in the columns of a log."""
        if is_foreign(path):
            columns = next(foreign_rows(path, self._columns), [])
        else:
            columns = next(csv.reader([first_line(path)]), [])
        columns = [column.strip() for column in columns]
        if self._time not in (None, *columns) and not is_foreign(path):
            raise InvalidInput(
                f"the log has no column {self._time!r:.60}",
                source=str(path),
                mend=near_miss(str(self._time), columns)
                or "set `time` in the scenario to the column with the times; the "
                f"columns are {', '.join(columns):.200}",
            )
        for name in self._columns:
            if name not in columns and (mend := near_miss(name, columns)):
                problem = f"the log has no column {name!r:.60}"
                raise InvalidInput(problem, source=str(path), mend=mend)
        aliases, signals = self._vocabulary.aliases, self._vocabulary.signals
        names = (aliases[name].signal if name in aliases else name for name in columns)
        found = tuple(dict.fromkeys(name for name in names if name in signals))
        if not found:
            raise InvalidInput(
                "no column contains a known signal",
                source=str(path),
                mend="map the columns to signals with `columns`",
            )
        return found

    def _read(self, path: Path) -> list[tuple[float, Mapping[str, Any]]]:
        """Reads the rows of a log: the times since its start, and the values."""
        if self._topics is not None:
            return _told(path, self._topics)
        rename = {} if self._time in (None, "time_s") else {str(self._time): "time_s"}
        period_s = None if self._time else self._period_s
        rows = foreign_rows(path, self._columns) if is_foreign(path) else None
        trace = read_table(path, self._vocabulary, period_s, rename, True, rows)
        if not trace.frames:
            raise InvalidInput("the file has no rows", source=str(path))
        signals = self._vocabulary.signals
        names = self._provides if self._blanks == "none" else ()
        blank = dict.fromkeys(name for name in names if signals[name].may_be_none)
        began = trace.frames[0].time_s
        return [
            ((frame.time_s - began) * self._factor, {**blank, **frame.values})
            for frame in trace.frames
        ]


def _told(path: Path, mapping: TopicMap) -> list[tuple[float, Mapping[str, Any]]]:
    """Reads frames from the topics of a bag, as times and values."""
    topics = Topics(mapping)
    with naming(str(path)):
        due = (
            topics.take(topic, message, at_ns / 1e9)
            for at_ns, topic, message in told_messages(path, set(mapping.topics))
        )
        rows = [each for each in due if each is not None]
    check_count(path, len(rows))
    if not rows:
        raise InvalidInput(
            "a topic of the mapping has no messages in the bag", source=str(path)
        )
    return list(rows)


def _example() -> LogWorld:
    rows = [f"{step / 10:.1f},{max(0, 40 - step)}.0" for step in range(60)]
    content = "\n".join(["time_s,speed", *rows, ""]).encode()
    files = {f"{number:02}.csv": content for number in range(_EXAMPLES)}
    return LogWorld.of(files, period_s=0.1)


class LogPilot:
    """A pilot that follows the log."""

    def reset(self, seed: int) -> None:
        """Does nothing."""

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        return Action("recorded")


class LogActuator(Replacing):
    """An actuator that does nothing, because a guard can only watch a log."""
