"""Files of a few kilobytes that unfold to gigabytes, or to hours of reading."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import tarfile
import time
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

MB = 1 << 20
HEADER = b'{"format":"forewarn.trace/1","provides":["speed"],"period_s":0.1}\n'
MODEL = b'{"format":"forewarn.model/1","states":['
DTMC = b"dtmc\nmodule m\n s:[0..1] init 0;\n"
REQUEST = "- never open the fridge\n"
"""A guard program's request, that functions may be given to."""
DRN = (
    b"@type: DTMC\n@parameters\n\n@reward_models\n\n@nr_states\n99999\n"
    b"@nr_choices\n99999\n@model\nstate 0 init\n\taction 0\n"
)


def again(piece: bytes, size: int) -> Iterator[bytes]:
    block = piece * max(1, MB // len(piece))
    return itertools.repeat(block, max(1, size // len(block)))


def frames(count: int, line: bytes) -> Iterator[bytes]:
    for begin in range(0, count, 10_000):
        yield b"".join(line.replace(b"#", b"%d" % (begin + i)) for i in range(10_000))


PACKED: dict[str, Iterable[bytes]] = {
    "zeros.json": again(b"\0", 300 * MB),
    "lists.json": [MODEL, *again(b"[],", 60 * MB), b"[]]}"],
    "a-million-numbers.json": [MODEL, *again(b"9,", 2 * MB), b"1]}"],
    "objects.json": [b"[", *again(b"{},", 60 * MB), b"{}]"],
    "one-line.jsonl": [HEADER, b'{"tool_output":[', *again(b"[],", 60 * MB), b"[]]}\n"],
    "blank-lines.jsonl": [HEADER, *again(b"\n", 60 * MB)],
    "frames.jsonl": itertools.chain(
        [HEADER],
        frames(600_000, b'{"sequence":#,"time_s":#,"signals":{"speed":1}}\n'),
    ),
    "rows.csv": itertools.chain([b"time_s,speed\n"], frames(600_000, b"#,1\n")),
    "wide.csv": itertools.chain(
        [b"time_s," + b",".join(b"c%d" % i for i in range(100_000)) + b"\n"],
        (b"%d," % row + b"1," * 99_999 + b"1\n" for row in range(100)),
    ),
    "talks.jsonl": again(b'{"messages":[]}\n', 30 * MB),
    "calls.json": [
        b'[{"messages":[{"role":"assistant","tool_calls":[',
        *again(b'{"function":{"name":"a","arguments":"{}"}},', 40 * MB),
        b"{}]}]}]",
    ],
    "words.txt": again(b"a ", 100 * MB),
    "commands.pm": [DTMC, *again(b"[] s=0 -> 1:(s'=0);\n", 7 * MB)],
    "a-long-sum.pm": [DTMC, b"[] s=0 -> ", *again(b"1+", 7 * MB), b"1:(s'=0);\n"],
    "a-long-guard.pm": [DTMC, b"[] s=0", *again(b"&s=0", 7 * MB), b" -> 1:(s'=0);\n"],
    "a-long-label.pm": [
        DTMC,
        b'endmodule\nlabel "x" = s=0',
        *again(b"|s=1", 7 * MB),
        b" ;;",
    ],
    "states.drn": [DRN, *again(b"\t\t0 : 1\n", 60 * MB)],
    "rows.tra": [b"3 3000000\n", *again(b"0 0 1\n", 60 * MB)],
}

PLAIN: dict[str, str] = {
    "states.pm": "dtmc\nmodule m\n"
    + "".join(f" x{i}:[0..1000] init 0;\n" for i in range(8))
    + "".join(f" [] x{i}<1000 -> (x{i}'=x{i}+1);\n" for i in range(8))
    + "endmodule\n",
    "power.pm": "dtmc\nconst int N = pow(9,pow(9,pow(9,9)));\nmodule m\n"
    " s:[0..1] init 0;\n [] true -> 1:(s'=mod(N,2));\nendmodule\n",
    "brackets.pm": f"{DTMC.decode()}[] {'(' * 50_000}true{')' * 50_000} -> 1:(s'=0);\n",
    "nots.pm": f"{DTMC.decode()}[] {'!' * 50_000}true -> 1:(s'=0);\nendmodule\n",
    "range.pm": "dtmc\nmodule m\n s:[0..99999999999999999999] init 0;\nendmodule\n",
    "brackets.yaml": "[" * 95_000,
    "mappings.yaml": "{a: " * 24_000,
    "questions.yaml": "? " * 49_000,
    "numbers.yaml": "[" + "1," * 49_000 + "]",
    "keys.yaml": "".join(f"k{i}: 1\n" for i in range(9_000)),
    "anchors.yaml": "".join(f"- &a{i} x\n" for i in range(7_000)),
    "sixties.yaml": "a: " + ":".join(["59"] * 33_000) + "\n",
    "digits.yaml": "a: " + "9" * 95_000 + "\n",
    "aliases.yaml": "a: &a [1,1,1,1,1,1,1,1,1]\n"
    + "".join(f"b{i}: &b{i} [*a,*a,*a,*a,*a,*a]\n" for i in range(20)),
    "loops.py": "while True:\n    pass\n",
    "hoards.py": "kept = []\nwhile True:\n    kept.append(bytes(1 << 20))\n",
}


_MANY = dict.fromkeys(("#states", "#choices", "#branches"), 10**12)

ARCHIVES: dict[str, dict[str, bytes]] = {
    "zeros.umb": {name: bytes(200 * MB) for name in ("index.json", "a.bin")},
    "lies.umb": {"index.json": json.dumps({"transition-system": _MANY}).encode()},
}


def most_s() -> float:
    """The processor time that a bomb may take: 5 s on a common machine.

    A slower one, on which the loop below takes longer, has that much more.
    """
    began = time.process_time()
    sum(i * i for i in range(5_000_000))
    return 5.0 * max(1.0, (time.process_time() - began) / 0.35)


def write_bombs(folder: Path) -> list[Path]:
    """All of them, in a folder."""
    found = [folder / f"{name}.gz" for name in PACKED]
    packed = cache(partial(gzip.compress, compresslevel=1))  # many pieces are the same
    for path, content in zip(found, PACKED.values(), strict=True):
        with path.open("wb") as out:
            out.writelines(map(packed, content))
    for name, text in PLAIN.items():
        found.append(folder / name)
        found[-1].write_text(text)
    for name, files in ARCHIVES.items():
        found.append(folder / name)
        with tarfile.open(found[-1], "w:gz", compresslevel=1) as archive:
            for each, held in files.items():
                about = tarfile.TarInfo(each)
                about.size = len(held)
                archive.addfile(about, io.BytesIO(held))
    if find_spec("mcap") is not None:
        for packing in ("ZSTD", "LZ4"):
            found.append(write_mcap(folder / f"zeros-{packing}.mcap", packing))
    return found


def write_mcap(path: Path, packing: str) -> Path:
    """A log of one chunk that unfolds to 200 MB."""
    from mcap.writer import CompressionType, Writer

    with path.open("wb") as out:
        writer = Writer(out, compression=CompressionType[packing], chunk_size=1 << 30)
        writer.start()
        kind = writer.register_schema("any", "jsonschema", b"{}")
        channel = writer.register_channel("/odom", "json", kind)
        for number in range(200):
            writer.add_message(channel, number, bytes(MB), number)
        writer.finish()
    return path
