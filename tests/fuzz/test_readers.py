"""Tests that readers accept only valid files, and name the files that they reject.

Set FUZZ_SEED for different mutations. A failure names the reader and the case. To
repeat it, run `pytest tests/fuzz -k 'reader and …'` with the same seed.
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
"""The number of cases in quick and in soak tests; the former are the first cases."""
CASE_S = 10.0
"""The time limit of a case in seconds, ten times that of the slowest known case."""

MOST_MIB = 3_000
"""The memory limit for reading a file, in MiB."""

FLAT_MIB = 300
"""The maximum increase of peak memory over thousands of files, in MiB."""

BY_NAME = {reader.name: reader for reader in READERS}


class TookTooLong(BaseException):
    """A case exceeded its time limit.

    It is not an `Exception`, so that no reader catches it.
    """


def _alarm(number: int, frame: FrameType | None) -> None:
    raise TookTooLong


def cases(reader: Reader) -> Iterator[bytes]:
    """Yields edges and mutated seeds alternately; `SEED` determines all of them."""
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
    """Returns the fault of a reader on a file; None if there is none."""
    path.write_bytes(data)
    signal.setitimer(signal.ITIMER_REAL, allowed_s)
    try:
        reader.read(path)
    except ForewarnError as error:
        said = str(error)
        if "\n" in said or len(said) > 1_000:
            return f"the error message is not one short line: {said[:2_000]!r}"
        if reader.suffix and str(path.parent) not in said:
            return f"the error message does not name the file: {said!r}"
    except TookTooLong:
        return f"the reader took more than {allowed_s} s"
    except Exception:
        return traceback.format_exc(limit=-4)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def faults(reader: Reader, folder: Path, first: int, last: int) -> list[str]:
    """Returns the faults in the cases from `first` up to, but not including, `last`."""
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
"""The texts to repeat, each after a bracket (0) or after a valid file (1)."""
MORE = ((0, b"0"), (0, b"\n"), (0, b"a\n"), (1, b"0"), (1, b"\n"), (1, b"0,"))


def _bombed(
    name: str, folder: str, bombs: tuple[tuple[int, bytes], ...]
) -> tuple[list[str], float]:
    """Returns the faults of a reader on small files that decompress to 200 MB, and the
    peak memory in MiB.
    """
    signal.signal(signal.SIGALRM, _alarm)
    reader, path = BY_NAME[name], Path(folder) / f"{name}{BY_NAME[name].suffix}"
    found = []
    for behind, unit in bombs:
        begin = (b"[", reader.seeds[0])[behind]
        member = gzip.compress(unit * (2**20 // len(unit)), mtime=0)
        data = gzip.compress(begin, mtime=0) + member * 200
        fault = fault_of(reader, path, data, 60 * CASE_S)
        if fault is not None:
            found.append(f"{name}, {begin[:20]!r} and {unit!r} repeated: {fault}")
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
