"""Whatever stands in a CommonRoad file, it is played or refused in a line."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.commonroad.bridge import CROSSING, CommonRoadWorld

STATE = re.compile(r"<state>\s*<time>\s*<exact>(\d+)</exact>.*?</state>\s*", re.S)
TEXT = STATE.sub(
    lambda found: found[0] if int(found[1]) <= 4 else "",
    gzip.decompress(CROSSING.read_bytes()).decode(),
)
"""The scene's first moments."""
NUMBER = re.compile(r'(?<=>)-?[\d.]+(?=<)|(?<=ref=")\d+|(?<=\bid=")\d+')
PLACES = [found.span() for found in NUMBER.finditer(TEXT)]
ODD = ["nan", "-1", "0", "", "word", "1e7", "1e300", "101", "201", "205", "1001", "7"]


def play(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scene.xml"
        path.write_text(text)
        for ego in (1001, 1003, 2001):
            world = CommonRoadWorld(files=str(path), ego=ego)
            world.reset(0)
            while world.ended() is None:
                world.step(None)
            world.things()


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(PLACES), st.sampled_from(ODD)),
        min_size=1,
        max_size=4,
        unique_by=lambda change: change[0],
    )
)
def test_odd_numbers_are_played_or_refused(
    changes: list[tuple[tuple[int, int], str]],
) -> None:
    text = TEXT
    for (begin, end), odd in sorted(changes, reverse=True):
        text = text[:begin] + odd + text[end:]
    try:
        play(text)
    except InvalidInput as refused:
        assert "\n" not in str(refused)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('<intersection id="501">', '<intersection id="0">'),
        ('<successorsLeft ref="203"/>', '<successorsLeft ref="205"/>'),
        ('<successor ref="103"/>', '<successor ref="201"/>'),
        ('<adjacentRight ref="101"', '<adjacentRight ref="102"'),
        ('<incomingLanelet ref="101"/>', ""),
    ],
)
def test_odd_roads_are_played(old: str, new: str) -> None:
    assert old in TEXT
    play(TEXT.replace(old, new))


HEAD = b'<commonRoad timeStepSize="0.1">'
BOMBS = {
    "text": (b"<x>", b"A", 60_000_000, b"</x></commonRoad>"),
    "points": (
        b'<lanelet id="1"><leftBound>',
        b"<point><x>0</x><y>0</y></point>",
        600_000,
        b"</leftBound></lanelet></commonRoad>",
    ),
    "points with attributes": (b"", b'<point a="1" b="2"/>', 1_990_000, b""),
}
MEASURED = """
import resource, sys
from pathlib import Path
from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.commonroad.reading import read_scene
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_scene(Path(sys.argv[1]))
except InvalidInput as error:
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_does_not_take_much_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / "scene.xml.gz"
    begin, piece, times, end = BOMBS[name]
    data = HEAD + begin + piece * times + end
    path.write_bytes(gzip.compress(data, compresslevel=1))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert int(done.stdout) < 350, "MB"
