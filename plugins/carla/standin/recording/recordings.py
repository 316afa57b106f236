"""A server's recordings: the folder they are in, the one that runs, the one that plays.

Clients name a log by its bare name, or by the whole path that the recorder told them:
there is no way out of the folder. A file that is no log is never written over.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from forewarn.plugins.carla.standin.encoding import Pose, Refusal, number
from forewarn.plugins.carla.standin.recording import logs
from forewarn.plugins.carla.standin.recording.logs import Log
from forewarn.plugins.carla.standin.recording.recorder import Recorder
from forewarn.plugins.carla.standin.recording.replay import Part, Replay

if TYPE_CHECKING:
    from forewarn.plugins.carla.standin.world import World

MOST_BYTES: Final = 2 << 30
"""Of all files in the folder, before a recording begins."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,119}")
_FASTEST = 1000.0


@dataclass(slots=True)
class Habits:
    """How clients want logs to be played."""

    factor: float = 1.0
    ignore_hero: bool = False
    ignore_spectator: bool = True


class Recordings:
    """The recordings of one server.

    Args:
        folder: Where they are kept; none for a folder that goes when the server ends.
        say: Tells whoever watches the server.
    """

    def __init__(self, folder: Path | None, say: Callable[[str], None]) -> None:
        self.habits = Habits()
        self._say = say
        self._own: tempfile.TemporaryDirectory[str] | None = None
        self._given = None if folder is None else folder.absolute()
        self._recorder: Recorder | None = None
        self._replay: Replay | None = None

    @property
    def folder(self) -> Path:
        if self._given is not None:
            self._given.mkdir(parents=True, exist_ok=True)
            return self._given
        if self._own is None:
            self._own = tempfile.TemporaryDirectory(prefix="forewarn-carla-")
        return Path(self._own.name)

    def path(self, name: str) -> Path:
        """Where a log is.

        Raises:
            Refusal: It would be somewhere else than in the folder.
        """
        folder = self.folder
        bare = str(name).removeprefix(f"{folder}{os.sep}")
        if not _NAME.fullmatch(bare):
            raise Refusal(
                f"{name!r:.80} is no name for a recording: they are kept in {folder},"
                " under names of letters, digits, dots, dashes and blanks"
            )
        return folder / bare

    def open(self, name: str) -> Log:
        """A log to read.

        Raises:
            FileNotFoundError: There is none of that name.
            Refusal: It cannot be read.
        """
        if self._recorder is not None:
            self._recorder.flush()
        return Log(self.path(name))

    # -- recording --------------------------------------------------------------------

    def record(self, world: World, name: str, more: bool) -> Path:
        """Begins a recording; what ran or played before ends."""
        path = self.path(name)
        self.leave(world)
        used = sum(file.stat().st_size for file in self.folder.iterdir())
        if used > MOST_BYTES:
            raise Refusal(f"{self.folder} is full: {used >> 20} MiB of recordings")
        odd = path.exists() and not path.is_file()
        if odd or (path.exists() and path.stat().st_size and not logs.is_log(path)):
            raise Refusal(f"{path} is no recording, and is not written over")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
        flags |= getattr(os, "O_BINARY", 0)
        try:
            file = os.fdopen(os.open(path, flags, 0o644), "wb")
        except OSError as error:
            raise Refusal(f"{path} cannot be written: {error.strerror}") from None

        def full() -> None:
            self._say(f"{path.name} has {logs.LARGEST >> 20} MiB: the recording ends")
            self.stop(world)

        self._recorder = Recorder(world, file, more, full)
        world.noted = self._recorder.take
        return path

    def stop(self, world: World) -> None:
        """Ends the recording, if one runs."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            world.noted = None
            recorder.close()

    # -- replaying --------------------------------------------------------------------

    def part(
        self, log: Log, begin_s: float, lasts_s: float, follow: int, offset: Pose
    ) -> Part:
        """What a client wants of a log: a time below 0 is one before its end."""
        begin_s, lasts_s = number(begin_s), number(lasts_s)
        if begin_s < 0.0:
            begin_s = max(0.0, log.duration_s + begin_s)
        end_s = begin_s + lasts_s if lasts_s > 0.0 else log.duration_s
        habits = self.habits
        return Part(
            begin_s, end_s, habits.factor, habits.ignore_hero, habits.ignore_spectator,
            int(follow), offset,
        )  # fmt: skip

    def play(self, world: World, log: Log, part: Part) -> None:
        """Begins to play a log, which is closed in the end."""
        self.leave(world)
        self._replay = Replay(world, log, part, self._say)
        world.moved = self._replay.step

    def end_replay(self, world: World, keep: bool) -> None:
        """Ends what plays, if anything does."""
        replay, self._replay = self._replay, None
        if replay is not None:
            world.moved = None
            replay.stop(keep)

    def hurry(self, factor: float) -> None:
        """How much faster than it was a log is played from now on."""
        factor = number(factor)
        if not 0.0 < factor <= _FASTEST:
            raise Refusal(f"a log cannot be played {factor:g} times as fast")
        self.habits.factor = factor

    # -- the end ----------------------------------------------------------------------

    def leave(self, world: World) -> None:
        """Ends what runs and what plays in a world."""
        self.stop(world)
        self.end_replay(world, keep=True)

    def close(self, world: World) -> None:
        """With the server."""
        self.leave(world)
        if self._own is not None:
            self._own.cleanup()
