"""Makes the maps that ship from their sources; for developers, with netconvert.

pip install eclipse-sumo sumolib
python -m forewarn.plugins.sumo.maps.draw
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from forewarn.plugins.sumo.maps.signs import put_up, signs

HERE = Path(__file__).parent
SOURCES = HERE / "sources"

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
    """Draws one map into a folder: the net, and its OpenDRIVE twin.

    What names the machine and the day is left out, so that the bytes depend on the
    sources and on SUMO's version alone.
    """
    netconvert = shutil.which("netconvert", path=str(Path(sys.executable).parent))
    if netconvert is None:
        raise SystemExit("netconvert is missing: pip install eclipse-sumo sumolib")
    net, twin = folder / f"{name}.net.xml", folder / f"{name}.xodr"
    command = [netconvert, *OPTIONS]
    for kind, option in _KINDS.items():
        source = SOURCES / name / f"{name}.{kind}.xml"
        if source.exists():
            command += [option, str(source)]
    command += ["--output-file", str(net), "--opendrive-output", str(twin)]
    subprocess.run(command, check=True)  # noqa: S603
    for path in (net, twin):
        text = _DATE.sub("", _COMMENT.sub("", path.read_text(encoding="utf-8")))
        if path is twin:
            text = put_up(signs(net), net, _CROSSWALK.sub(_set_back, text))
        path.write_text(text.rstrip() + "\n", encoding="utf-8")
    return net, twin


def _set_back(crosswalk: re.Match[str]) -> str:
    """Puts a crosswalk between the stop lines and the junction, where the net has it.

    netconvert writes it around the beginning of the road behind the junction.
    """
    width = float(crosswalk["width"])

    def moved(corner: re.Match[str]) -> str:
        return f'<cornerLocal u="{float(corner[1]) - width / 2.0:.8f}"'

    return re.sub(r'<cornerLocal u="([^"]*)"', moved, crosswalk[0])


def names() -> list[str]:
    """The maps that have sources."""
    return sorted(path.name for path in SOURCES.iterdir() if path.is_dir())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for name in names():
            for made in draw(name, Path(scratch)):
                shutil.copyfile(made, HERE / made.name)
