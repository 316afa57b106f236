"""Builds the shipped maps from their sources with netconvert, for developers.

pip install eclipse-sumo sumolib
python -m tests.plugins.sumo.draw
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from forewarn.plugins.sumo.support import MAPS
from tests.plugins.sumo.loops import closed

SOURCES = MAPS / "sources"

OPTIONS = (
    "--no-turnarounds", "true", "--offset.disable-normalization", "true",
    "--tls.green.time", "30", "--tls.yellow.time", "3", "--tls.allred.time", "2",
    "--tls.left-green.time", "0", "--tls.crossing-min.time", "8",
    "--tls.crossing-clearance.time", "6",
)  # fmt: skip

_KINDS = {"nod": "--node-files", "edg": "--edge-files", "con": "--connection-files"}
_COMMENT = re.compile(r"<!--.*?-->\s*", re.DOTALL)
_CROSSWALK = re.compile(
    r'<object [^>]*type="crosswalk"[^>]*\blength="(?P<width>[^"]*)".*?</object>',
    re.DOTALL,
)
_DATE = re.compile(r' date="[^"]*"')


def draw(name: str, folder: Path) -> tuple[Path, Path]:
    """Builds a SUMO net and its OpenDRIVE counterpart in a folder.

    The files contain neither the date nor facts about the machine, so they depend only
    on the sources and on SUMO's version.
    """
    netconvert = shutil.which("netconvert", path=str(Path(sys.executable).parent))
    if netconvert is None:
        raise SystemExit(
            "netconvert is missing: run `pip install eclipse-sumo sumolib`"
        )
    net, twin = folder / f"{name}.net.xml", folder / f"{name}.xodr"
    command = [netconvert, *OPTIONS]
    for kind, option in _KINDS.items():
        source = SOURCES / name / f"{name}.{kind}.xml"
        if source.exists():
            command += [option, str(source)]
    command += ["--output-file", str(net), "--opendrive-output", str(twin)]
    subprocess.run(command, check=True)
    for path in (net, twin):
        text = _DATE.sub("", _COMMENT.sub("", path.read_text(encoding="utf-8")))
        if path is twin:
            text = put_up(signs(net), net, _CROSSWALK.sub(_set_back, text))
            text = closed(text)
        path.write_text(text.rstrip() + "\n", encoding="utf-8")
    return net, twin


def _set_back(crosswalk: re.Match[str]) -> str:
    """Moves a crosswalk to its place in the net, between the stop lines and the
    junction.

    netconvert places it at the start of the road after the junction.
    """
    width = float(crosswalk["width"])

    def moved(corner: re.Match[str]) -> str:
        return f'<cornerLocal u="{float(corner[1]) - width / 2.0:.8f}"'

    return re.sub(r'<cornerLocal u="([^"]*)"', moved, crosswalk[0])


def names() -> list[str]:
    """Returns the names of the maps that have sources."""
    return sorted(path.name for path in SOURCES.iterdir() if path.is_dir())


YIELD, STOP = "205", "206"
_ONCOMING = 135.0
_BESIDE_M = 0.5

_ROAD = re.compile(
    r'<road name="[^"]*" length="(?P<length>[^"]*)" id="(?P<id>[^"]*)".*?</road>',
    re.DOTALL,
)
_INNER = re.compile(r'<road name="(?P<edge>:[^"]*)"[^>]* id="(?P<id>[^"]*)"')
_INTO = re.compile(r'incomingRoad="(?P<road>[^"]*)" connectingRoad="(?P<inner>[^"]*)"')
_LANE = re.compile(r'<lane id="(-[0-9]+)" type="driving"')
_WIDTH = re.compile(r'<width sOffset="0" a="([^"]*)"')


def signs(net: Path) -> dict[str, str]:
    """Returns the sign at the end of each edge that has no right of way, by edge.

    Yielding to pedestrians, or to oncoming traffic on left turns, requires no sign.
    """
    import sumolib

    found: dict[str, str] = {}
    for node in sumolib.net.readNet(str(net)).getNodes():
        if node.getType().startswith("traffic_light"):
            continue
        links = node.getConnections()
        for link in links:
            edge = link.getFrom().getID()
            if link.getState() == "s":
                found[edge] = STOP
            elif any(_goes_last(node, link, other) for other in links):
                found.setdefault(edge, YIELD)
    return found


def _goes_last(node: Any, link: Any, other: Any) -> bool:
    if not node.forbids(other, link) or node.forbids(link, other):
        return False
    turned = _heading(link) - _heading(other)
    return abs(math.remainder(turned, 360.0)) < _ONCOMING


def _heading(link: Any) -> float:
    (ax, ay), (bx, by) = (p[:2] for p in link.getFromLane().getShape()[-2:])
    return math.degrees(math.atan2(by - ay, bx - ax))


def put_up(found: dict[str, str], net: Path, twin: str) -> str:
    """Adds signs at the ends of roads to the text of an OpenDRIVE map.

    Roads outside junctions have no names in the map, so they are identified by the
    paths through junctions that start at their ends.
    """
    import sumolib

    inner = {each["edge"]: each["id"] for each in _INNER.finditer(twin)}
    before = {each["inner"]: each["road"] for each in _INTO.finditer(twin)}
    edges = sumolib.net.readNet(str(net), withInternal=True)
    kinds: dict[str, tuple[str, str]] = {}
    for edge, kind in found.items():
        for links in edges.getEdge(edge).getOutgoing().values():
            for link in links:
                via = link.getViaLaneID().rpartition("_")[0]
                if via in inner:
                    kinds[before[inner[via]]] = edge, kind

    def signed(road: re.Match[str]) -> str:
        if road["id"] not in kinds:
            return road[0]
        edge, kind = kinds[road["id"]]
        aside = sum(map(float, _WIDTH.findall(road[0]))) + _BESIDE_M
        lanes = sorted(map(int, _LANE.findall(road[0])))
        sign = (
            "<signals>\n"
            f'            <signal id="{edge}" s="{road["length"]}" t="-{aside:.8f}"'
            f' orientation="+" dynamic="no" zOffset="2" country="OpenDRIVE"'
            f' type="{kind}" subtype="-1" height="0.90000000" width="0.90000000">\n'
            f'                <validity fromLane="{lanes[0]}" toLane="{lanes[-1]}"/>\n'
            "            </signal>\n"
            "        </signals>"
        )
        return road[0].replace("<signals/>", sign)

    return _ROAD.sub(signed, twin)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for name in names():
            for made in draw(name, Path(scratch)):
                shutil.copyfile(made, MAPS / made.name)
