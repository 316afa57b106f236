"""Mutates valid files: flips bits, cuts and splices parts, inserts unusual numbers."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Iterator, Sequence

NUMBERS = (
    b"NaN", b"nan", b".nan", b"Infinity", b"-inf", b"1e999", b"-1e999", b"1e-999",
    b"0", b"-0", b"-1", b"1.0000001", b"0.9999999", b"2147483648", b"1e18",
    b"9223372036854775808", b"10000000", b"9" * 400, b"7" * 5000, b"0x" + b"f" * 5000,
    b"1/0", b"0/1", b"1/3", b"1e308", b"4.9e-324", b"1_000", b"1e", b"true", b"null",
    "\u0663".encode(), "\u00b2".encode(),
)  # fmt: skip
WORDS = (
    b"../secret", b"/etc/passwd", b"..", b"a/../../b", b"\\ud800", b"\\u0000", b"\\n",
    b"none", b"null", b"true", b"END", b"init", b"deadlock", b"speed", b"[]", b"{}",
    b"*", b"&a", b"*a", b"!!set", b"!!python/object:os.system", b"<<", b"~", b"? ",
    b"---\n", b"...\n", b"2001-99-99", b"12:30:45", b"|", b">", b"%", b"@", b"`",
    b"always", b"eventually", b"not", b"->", b"and", b"or", b"(", b")", b"[", b"]",
    b"{", b"}", b",", b":", b";", b"=", b"'", b'"', b"\\", b"#", b"//", b"\x00",
    b"\x1b[31m", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x80\xae", b"\r", b"\n",
    b"\t", b" ", b"\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"x" * 5000,
)  # fmt: skip
PICKLES = (
    b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00]\x94.",
    b"(lp0\n.",
    b"\x80\x02]q\x00.",
)

_NUMBER = re.compile(rb"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")
_QUOTED = re.compile(rb'"[^"\n]{0,200}"')
_WORD = re.compile(rb"[A-Za-z_]\w*")
_PAIR = re.compile(rb'"[^"\n]{0,80}"\s*:\s*[^,{}\[\]\n]{1,80}')

_ODD = ((_NUMBER, NUMBERS), (_QUOTED, WORDS + NUMBERS), (_WORD, WORDS + NUMBERS))

Mutation = Callable[[random.Random, bytes, Sequence[bytes]], bytes]


def mutant(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Returns a random seed after a few random mutations."""
    data = rng.choice(seeds)
    for _ in range(min(8, 1 + int(rng.expovariate(0.8)))):
        data = rng.choice(_MUTATIONS)(rng, data, seeds)
    return data


def edges(rng: random.Random, seeds: Sequence[bytes]) -> Iterator[bytes]:
    """Yields the inputs that cause most failures, the most likely ones first."""
    yield from (b"", b"\n", b"\x00", b"\xff\xfe\x00", b"{", b"{}", b"[]", b"null")
    yield from (b"0", b'""', b"NaN", b"[" * 100_000, b'{"a":' * 100_000, b"(" * 100_000)
    yield from (b"-" * 100_000, b"not " * 1000, b"a" * 100_000, b"a,\n" * 1000)
    yield from PICKLES
    for seed in seeds:
        packed = gzip.compress(seed, mtime=0)
        yield from (packed, packed[: len(packed) // 2], packed + b"x", seed + seed)
        yield from (
            seed + b"\x00",
            b"\xef\xbb\xbf" + seed,
            seed.replace(b"\n", b"\r\n"),
        )
        yield seed.decode("latin-1").encode("utf-16")
    swapped = list(_swaps(seeds))
    rng.shuffle(swapped)
    yield from (make() for make in swapped)


def _swaps(seeds: Sequence[bytes]) -> Iterator[Callable[[], bytes]]:
    """Yields changes: unusual values for each number, text and word, and lines removed,
    repeated and cut off.
    """
    for seed in seeds:
        for pattern, odd in _ODD:
            found = list(pattern.finditer(seed))
            for match in found[:: 1 + len(found) // 40]:
                for text in odd:
                    yield lambda s=seed, m=match, t=text: _replaced(s, m, t)
        lines = seed.splitlines(keepends=True)
        for i in range(0, len(lines), 1 + len(lines) // 40):
            yield lambda x=lines, i=i: b"".join(x[:i] + x[i + 1 :])
            yield lambda x=lines, i=i: b"".join(x[: i + 1] + x[i:])
            yield lambda x=lines, i=i: b"".join(x[:i])


def _replaced(data: bytes, match: re.Match[bytes], text: bytes) -> bytes:
    quoted = data[match.start() : match.start() + 1] == b'"'
    text = b'"' + text.replace(b'"', b'\\"') + b'"' if quoted else text
    return data[: match.start()] + text + data[match.end() :]


def _span(rng: random.Random, data: bytes) -> tuple[int, int]:
    begin = rng.randrange(len(data) + 1)
    longest = rng.choice((4, 40, 400))
    return begin, min(len(data), begin + rng.randrange(1, longest))


def _flip(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _cut(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    begin, end = _span(rng, data)
    return data[:begin] + data[end:]


def _truncate(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _double(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    begin, end = _span(rng, data)
    return data[:end] + data[begin:end] * rng.choice((1, 2, 50)) + data[end:]


def _splice(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = rng.choice(seeds)
    begin, end = _span(rng, other)
    at = rng.randrange(len(data) + 1)
    return data[:at] + other[begin:end] + data[at:]


def _insert(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(WORDS) + data[at:]


_NESTS = ((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"- ", b""), (b"not ", b""))


def _nest(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    begin, end = _span(rng, data)
    left, right = rng.choice(
        ((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"- ", b""))
    )
    deep = rng.choice((1, 3, 60, 2000))
    return data[:begin] + left * deep + data[begin:end] + right * deep + data[end:]


def _swapped(pattern: re.Pattern[bytes], odd: Sequence[bytes]) -> Mutation:
    def mutate(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
        found = list(pattern.finditer(data[:100_000]))
        if not found:
            return data
        own = rng.choice(found).group().strip(b'"')
        text = rng.choice(odd) if rng.random() < 0.7 else own
        return _replaced(data, rng.choice(found), text)

    return mutate


def _repeat_key(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    found = list(_PAIR.finditer(data[:100_000]))
    if not found:
        return data
    pair, at = rng.choice(found).group(), rng.choice(found).start()
    return data[:at] + pair + b"," + data[at:]


def _lines(rng: random.Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(3):
        case 0:
            lines[i], lines[j] = lines[j], lines[i]
        case 1:
            lines.insert(i, lines[j])
        case _:
            del lines[i]
    return b"".join(lines)


_MUTATIONS: tuple[Mutation, ...] = (
    _flip,
    _cut,
    _truncate,
    _double,
    _splice,
    _insert,
    _nest,
    _swapped(_NUMBER, NUMBERS),
    _swapped(_NUMBER, NUMBERS),
    _swapped(_QUOTED, (*WORDS, *NUMBERS)),
    _swapped(_WORD, (*WORDS, *NUMBERS)),
    _repeat_key,
    _lines,
)
