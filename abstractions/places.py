"""Paths of files on a disk, or in object storage under a URL such as `s3://b/runs`.

An `Address` (a storage URL) is a `Path`, so all functions that open, list or join paths
accept it. The storage is accessed through pyarrow, or through fsspec if pyarrow does
not support it. Credentials come from the environment, never from the URL.
"""

from __future__ import annotations

import errno
import io
import os
import queue
import re
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from forewarn.abstractions.errors import InvalidInput, MissingDependency
from forewarn.abstractions.limits import STORAGE_SECONDS

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_PATIENCE = {"gs": "?retry_limit_seconds=15", "gcs": "?retry_limit_seconds=15"}
"""Query parameters that limit pyarrow's retries, which otherwise take 15 minutes."""

_FRESH_S = 60.0
"""The time in seconds for which the version of an object is cached."""

_AHEAD = 1 << 20

_SLOWEST = 1 << 17
"""The minimum upload rate, in bytes per second."""

_SAID = re.compile(
    r"AWS Error (?P<aws>\w+)(?: \[[^]]*\])? during \w+ operation: (?P<why>[^;(]*)"
    r"|google::cloud::Status\((?P<gs>\w+): (?P<because>.*)",
    re.DOTALL,
)


def place(text: str | Path) -> Path:
    """Parses a path on a disk or a storage URL.

    Raises:
        InvalidInput: The URL contains a password.
    """
    if isinstance(text, Path) or not _ADDRESS.match(text):
        return Path(text) if isinstance(text, str) else text
    parts = urlsplit(text)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if ":" in parts.netloc.rpartition("@")[0]:
        raise InvalidInput(
            "the URL must not contain credentials",
            source=f"{parts.scheme}://…@{parts.netloc.rpartition('@')[2]}",
            mend="set them in the environment, such as AWS_ACCESS_KEY_ID",
        )
    return Address(text)


class Address(PosixPath):
    """The URL of an object in storage, or of a prefix of object names."""

    __slots__ = ()

    def __str__(self) -> str:
        scheme, *rest = self.parts
        return f"{scheme}//{'/'.join(rest)}"

    def __fspath__(self) -> str:
        # A caller of this method would look for the file on the disk.
        problem = "this kind of file is not supported in object storage"
        raise InvalidInput(problem, source=str(self), mend="use a file on a disk")

    def input_file(self) -> pa.NativeFile:
        """Opens the object for random access by pyarrow."""
        if len(self.parts) < 3:
            self.stat()  # raises an error if the bucket is missing
        with self._asked() as (system, name):
            return _in_time(lambda: system.open_input_file(name))

    def open(self, mode: str = "r", *_: Any, **__: Any) -> Any:
        if mode != "rb":
            raise ValueError(f"an object in storage cannot be opened with mode {mode}")
        return io.BufferedReader(_Told(self.input_file(), self), _AHEAD)

    def put(self, file: Path) -> None:
        """Uploads a file's bytes as the object."""
        with file.open("rb") as raw, self._asked() as (system, name):
            out = _in_time(lambda: system.open_output_stream(name, compression=None))
            while part := raw.read(_AHEAD):
                _in_time(partial(out.write, part))
            # Some file systems send the whole file only when the stream is closed.
            _in_time(out.close, STORAGE_SECONDS + raw.tell() / _SLOWEST)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        if len(self.parts) < 2:
            # The parent of all buckets, which cannot be listed.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        with self._asked() as (system, name):
            info = _in_time(lambda: system.get_file_info(name))
        if info.type.name == "NotFound":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        mode = stat.S_IFDIR if info.type.name == "Directory" else stat.S_IFREG
        changed_ns = info.mtime_ns or 0
        moment = changed_ns // 10**9
        facts = (mode, 0, 0, 0, 0, 0, info.size or 0, moment, moment, moment)
        return os.stat_result(facts, {"st_mtime_ns": changed_ns})

    def exists(self, **_: Any) -> bool:
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self, **_: Any) -> bool:
        return self.exists() and stat.S_ISDIR(self.stat().st_mode)

    def is_file(self, **_: Any) -> bool:
        return self.exists() and stat.S_ISREG(self.stat().st_mode)

    def listed(self) -> list[tuple[Address, bool]]:
        """Returns the direct children of the prefix; True marks an object."""
        from pyarrow.fs import FileSelector

        with self._asked() as (system, name):
            selected = FileSelector(name, allow_not_found=True)
            infos = _in_time(lambda: system.get_file_info(selected))
        return [(self / info.base_name, info.type.name == "File") for info in infos]

    def iterdir(self) -> Generator[Address, None, None]:
        return (each for each, _ in self.listed())

    def glob(self, pattern: str) -> Generator[Address, None, None]:
        return (each for each in self.iterdir() if fnmatchcase(each.name, pattern))

    def unlink(self, missing_ok: bool = False) -> None:
        if self.exists() or not missing_ok:
            with self._asked() as (system, name):
                _in_time(lambda: system.delete_file(name))

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Does nothing: folders exist in storage only as prefixes of names."""

    def rmdir(self) -> None:
        """Does nothing: there are no folders to remove in storage."""

    def absolute(self) -> Address:
        return self

    def resolve(self, strict: bool = False) -> Address:
        return self

    @contextmanager
    def _asked(self) -> Iterator[tuple[Any, str]]:
        """Yields the file system and the path in it; converts storage errors to
        `OSError`.
        """
        scheme, *rest = self.parts
        try:
            system, root = _system(scheme.removesuffix(":"), rest[0] if rest else "")
            yield system, "/".join([root, *rest[1:]] if root else rest[1:])
        except (InvalidInput, MissingDependency):
            raise
        except Exception as error:
            raise self._told(error) from error

    def _told(self, error: BaseException) -> OSError:
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        number = getattr(error, "errno", None) or errno.EIO
        said = storage_said(error) or getattr(error, "strerror", None)
        return OSError(number, said or f"{error!s:.200}", str(self))


left_running: list[str] = []
"""Libraries whose threads cannot be stopped, and crash if Python exits before them.

If there are any, the command line exits without the interpreter's clean-up.
"""


def _in_time(call: Callable[[], _T], limit_s: float | None = None) -> _T:
    """Calls the storage; raises `TimeoutError` if the response is too late.

    A server may return an endless listing, or one byte per second. The call cannot be
    cancelled, so it continues in a daemon thread.
    """
    answers: queue.SimpleQueue[Callable[[], _T]] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = call()
        except BaseException as error:
            raised = error

            def fail() -> _T:
                raise raised

            answers.put(fail)
        else:
            answers.put(lambda: found)

    limit_s = STORAGE_SECONDS if limit_s is None else limit_s
    threading.Thread(target=ask, daemon=True).start()
    try:
        return answers.get(timeout=limit_s)()
    except queue.Empty:
        left_running.append("pyarrow")
        problem = f"the storage did not send a complete response within {limit_s:g} s"
        raise TimeoutError(errno.ETIMEDOUT, problem) from None


class _Told(io.RawIOBase):
    """A readable file for an object; read errors name the object."""

    def __init__(self, file: pa.NativeFile, address: Address) -> None:
        self._file, self._address = file, address

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int:
        try:
            # Do not read directly into the buffer: a late response would write to freed
            # memory.
            found = _in_time(lambda: self._file.read(len(into)))
        except Exception as error:
            raise self._address._told(error) from error
        into[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        self._file.close()
        super().close()


@lru_cache
def _system(scheme: str, authority: str) -> tuple[Any, str]:
    """Returns the pyarrow file system of a storage URL, and the prefix of names in
    it.
    """
    try:
        import pyarrow as pa
        from pyarrow import fs
    except ImportError as error:
        raise MissingDependency("access to object storage", "fleet") from error
    address = f"{scheme}://{authority}"
    try:
        system, root = fs.FileSystem.from_uri(address + _PATIENCE.get(scheme, ""))
        return system, root
    except pa.ArrowInvalid:
        pass
    try:
        import fsspec
    except ImportError as error:
        raise MissingDependency(f"{scheme}://", "fleet") from error
    try:
        system, root = fsspec.core.url_to_fs(address)
    except (ValueError, ImportError) as error:
        raise InvalidInput(
            f"{scheme} is not a supported storage scheme",
            source=address,
            mend="use s3, gs, abfs, or another scheme of the installed fsspec",
        ) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), root.rstrip("/")


def storage_said(error: BaseException) -> str:
    """Returns a short form of an error from the storage; empty for other errors."""
    found = _SAID.search(str(error))
    if found is None:
        return ""
    if found["aws"] == "NETWORK_CONNECTION":
        where = os.environ.get("AWS_ENDPOINT_URL", "its address")
        return (
            f"no storage answers at {where:.120} (check AWS_ENDPOINT_URL and the "
            "network)"
        )
    code = (found["aws"] or found["gs"]).lower().replace("_", " ")
    why = " ".join((found["why"] or found["because"] or "").split())
    return f"the storage reports {code}: {why:.120}"


def files_below(folder: Path) -> list[Path]:
    """Returns the files in a folder, sorted by name, without hidden files; empty if the
    folder does not exist.
    """
    if isinstance(folder, Address):
        found: list[Path] = [each for each, is_object in folder.listed() if is_object]
    else:
        found = [each for each in folder.glob("*") if each.is_file()]
    return sorted(each for each in found if each.name[0] != ".")


def settle(file: Path, path: Path) -> None:
    """Moves a temporary file to its destination; keeps the mode of a file that it
    replaces.
    """
    if isinstance(path, Address):
        path.put(file)
        file.unlink()
        return
    file.chmod(stat.S_IMODE(path.stat().st_mode) if path.exists() else _new_mode())
    file.replace(path)


def _new_mode() -> int:
    """Returns the mode of a new file, according to the umask."""
    mask = os.umask(0o077)  # the umask can be read only by setting it
    os.umask(mask)
    return 0o666 & ~mask


def version(path: Path) -> tuple[int, int]:
    """Returns the size and modification time of a file, to detect changes."""
    if isinstance(path, Address):
        return _version(path, int(time.monotonic() / _FRESH_S))
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


@lru_cache
def _version(path: Address, now: int) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def opened(path: Path) -> Any:
    """Returns the input for pyarrow's readers: the path of a file, or a stream for an
    object.
    """
    if not isinstance(path, Address):
        return path
    import pyarrow as pa

    return pa.PythonFile(_Told(path.input_file(), path), mode="r")


def mapped(path: Path) -> pa.NativeFile:
    """Returns a memory-mapped file, or a stream for an object in storage."""
    import pyarrow as pa

    return opened(path) if isinstance(path, Address) else pa.memory_map(str(path))
