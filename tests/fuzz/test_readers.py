"""Whatever stands in a file, its reader accepts it rightly or refuses it by name.

Set FUZZ_SEED for other mutations than the usual ones. A failure names the reader and
the case; `pytest tests/fuzz -k 'reader and …'` with the same seed repeats it.
"""

from __future__ import annotations

import gzip
import itertools
import os
import random
import resource
import signal
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

import pytest

from forewarn.abstractions.errors import ForewarnError
from tests.fuzz import seeds as valid
from tests.fuzz.mutations import edges, mutant
from tests.fuzz.readers import READERS, Reader

SEED = os.environ.get("FUZZ_SEED", "0")
FEW, MANY = 500, 100_000
"""The few are the first of the many."""
CASE_S = 10.0
"""No case takes longer; the slowest that we know takes a tenth of it."""

MOST_MIB = 3_000
"""The most that reading any file may take."""

FLAT_MIB = 300
"""By how much many thousand bad files may raise the most memory ever used."""

BY_NAME = {reader.name: reader for reader in READERS}


class TookTooLong(BaseException):
    """Not an Exception, so that no reader can take it for one of its own."""


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TookTooLong


def cases(reader: Reader) -> Iterator[bytes]:
    """The reader's edges and mutated seeds in turn, the same for the same seed."""
    rng = random.Random(f"{SEED} {reader.name}")
    known = itertools.chain(reader.edges, edges(rng, reader.seeds))
    while True:
        edge = next(known, None)
        if edge is not None:
            yield reader.prepare(edge)
        yield reader.prepare(mutant(rng, reader.seeds))


def fault_of(
    reader: Reader, path: Path, data: bytes, allowed_s: float = CASE_S
) -> str | None:
    """What the reader did that it must not; None if it behaved."""
    path.write_bytes(data)
    signal.setitimer(signal.ITIMER_REAL, allowed_s)
    try:
        reader.read(path)
    except ForewarnError as error:
        said = str(error)
        if "\n" in said or len(said) > 1_000:
            return f"its refusal is no short line: {said[:2_000]!r}"
        if reader.suffix and str(path.parent) not in said:
            return f"its refusal names no file: {said!r}"
    except TookTooLong:
        return f"it took more than {allowed_s} s"
    except Exception:
        return traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def faults(reader: Reader, folder: Path, first: int, last: int) -> list[str]:
    """What went wrong in cases `first` to `last`."""
    signal.signal(signal.SIGALRM, _alarm)
    if reader.name in ("record", "replay"):
        valid.write_record(folder)
    path = folder / f"case{reader.suffix}"
    found = []
    for number, data in enumerate(itertools.islice(cases(reader), first, last), first):
        fault = fault_of(reader, path, data)
        if fault is not None:
            found.append(f"{reader.name}, case {number}, {data[:300]!r}: {fault}")
    return found


BOMBS = ((0, b"0,"), (1, b"a\n"))
"""What is repeated for long: behind a bracket (0), or behind a valid file (1)."""
MORE = ((0, b"0"), (0, b"\n"), (0, b"a\n"), (1, b"0"), (1, b"\n"), (1, b"0,"))


def _bombed(
    name: str, folder: str, bombs: tuple[tuple[int, bytes], ...]
) -> tuple[list[str], float]:
    """What a reader does with a few kilobytes that unpack to 200 megabytes."""
    signal.signal(signal.SIGALRM, _alarm)
    reader, path = BY_NAME[name], Path(folder) / f"{name}{BY_NAME[name].suffix}"
    found = []
    for behind, unit in bombs:
        begin = (b"[", reader.seeds[0])[behind]
        member = gzip.compress(unit * (2**20 // len(unit)), mtime=0)
        data = gzip.compress(begin, mtime=0) + member * 200
        fault = fault_of(reader, path, data, 60 * CASE_S)
        if fault is not None:
            found.append(f"{name}, {begin[:20]!r} and {unit!r} for long: {fault}")
    return found, peak_mib()


@pytest.mark.soak
@pytest.mark.parametrize("bombs", [BOMBS, MORE], ids=["usual", "more"])
def test_a_small_file_that_unpacks_to_a_huge_one(
    bombs: tuple[tuple[int, bytes], ...], tmp_path: Path
) -> None:
    names = [reader.name for reader in READERS if reader.suffix]
    with ProcessPoolExecutor(mp_context=get_context("spawn"), max_workers=2) as pool:
        shares = [pool.submit(_bombed, name, str(tmp_path), bombs) for name in names]
        results = [share.result() for share in shares]
    found = [fault for faults, _ in results for fault in faults]
    assert not found, "\n\n".join(found)
    assert max(peak for _, peak in results) < MOST_MIB


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("name", BY_NAME)
def test_a_seed_is_accepted(name: str, tmp_path: Path) -> None:
    reader = BY_NAME[name]
    valid.write_record(tmp_path)
    for seed in reader.seeds:
        path = tmp_path / f"case{reader.suffix}"
        path.write_bytes(reader.prepare(seed))
        reader.read(path)


@pytest.mark.parametrize("name", BY_NAME)
def test_whatever_a_file_holds_it_is_accepted_rightly_or_refused(
    name: str, tmp_path: Path
) -> None:
    before = peak_mib()
    found = faults(BY_NAME[name], tmp_path, 0, FEW // len(READERS))
    assert not found, "\n\n".join(found[:5])
    assert peak_mib() - before < FLAT_MIB


def _share(name: str, folder: str, first: int, last: int) -> tuple[list[str], float]:
    before = peak_mib()
    own = Path(folder) / f"{name}-{first}"
    own.mkdir()
    return faults(BY_NAME[name], own, first, last), peak_mib() - before


@pytest.mark.soak
def test_a_hundred_thousand_files(tmp_path: Path) -> None:
    each = MANY // len(READERS)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        shares = [pool.submit(_share, name, str(tmp_path), 0, each) for name in BY_NAME]
        results = [share.result() for share in shares]
    found = [fault for faults, _ in results for fault in faults]
    assert not found, f"{len(found)} faults\n\n" + "\n\n".join(found[:20])
    assert max(grown for _, grown in results) < FLAT_MIB
