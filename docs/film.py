"""A moving picture of a run: a car, a light, and the risk. Any browser plays it.

forewarn collect tiny-road --episodes 200 --out traces
forewarn learn traces --scenario tiny-road --out model.json
forewarn run tiny-road --model model.json --intervene stop \\
      --threshold 0.4 --seed 9014 --out runs
python docs/film.py runs/tiny-road-*.run.jsonl docs/film.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forewarn.monitors.guarding.record import read_record

WIDTH, HEIGHT = 720, 250
LEFT, RIGHT = 30, 690
LINE_X = 520
METRES = 110.0
"""What of the road before the line is shown."""

ROAD_Y, TOP, BOTTOM = 60, 120, 220
EVERY = 2
"""Of the frames every second one is enough."""

LIGHTS = {"green": "#2e9e5b", "yellow": "#d9a400", "red": "#c7423a"}


def film(record: Path) -> str:
    """The picture of a run before a light."""
    frames = [
        line.content
        for line in read_record(record)
        if line.content.get("signals", {}).get("stop_line_distance") is not None
    ][::EVERY]
    took_s = frames[-1]["time_s"] - frames[0]["time_s"]
    risks = [(each["decision"]["risk"] or {}).get("point", 1.0) for each in frames]
    away = [each["signals"]["stop_line_distance"] for each in frames]
    along = [LEFT + max(0.0, 1 - m / METRES) * (LINE_X - LEFT) for m in away]
    heights = [BOTTOM - risk * (BOTTOM - TOP) for risk in risks]
    step = (RIGHT - LEFT) / max(len(frames) - 1, 1)
    across = [LEFT + i * step for i in range(len(frames))]
    curve = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, heights, strict=True))
    lights = [LIGHTS.get(each["signals"]["traffic_light"], "#888") for each in frames]
    said = [_said(each["decision"]) for each in frames]

    def moves(name: str, values: Sequence[Any], jumps: bool = False) -> str:
        mode = "discrete" if jumps else "linear"
        told = ";".join(v if isinstance(v, str) else f"{v:.1f}" for v in values)
        return (
            f'<animate attributeName="{name}" dur="{took_s:.1f}s" calcMode="{mode}"'
            f' repeatCount="indefinite" values="{told}"/>'
        )

    words = "".join(
        f'<text x="{LEFT}" y="30" opacity="0">{word}'
        f"{moves('opacity', ['1' if each == word else '0' for each in said], True)}"
        "</text>"
        for word in dict.fromkeys(said)
    )
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" \
font-family="system-ui, sans-serif" font-size="15" fill="#6b7684">
<title>A car comes to a light that turns red; the risk rises, and the guard stops it\
</title>
<rect x="{LEFT}" y="{ROAD_Y - 14}" width="{RIGHT - LEFT}" height="28" fill="#6b7684" \
opacity="0.25"/>
<rect x="{LINE_X}" y="{ROAD_Y - 14}" width="4" height="28" fill="#6b7684"/>
<circle cx="{LINE_X + 2}" cy="{ROAD_Y - 28}" r="8">\
{moves("fill", lights, True)}</circle>
<rect y="{ROAD_Y - 7}" width="30" height="14" rx="4" fill="#2f6fb2">\
{moves("x", [x - 30 for x in along])}</rect>
<text x="{LEFT}" y="{TOP - 8}">risk of breaking the rule within seconds</text>
<line x1="{LEFT}" x2="{RIGHT}" y1="{BOTTOM}" y2="{BOTTOM}" stroke="#6b7684"/>
<polyline points="{curve}" fill="none" stroke="#c7423a" stroke-width="2" opacity="0.5"/>
<circle r="6" fill="#c7423a">{moves("cx", across)}{moves("cy", heights)}</circle>
{words}
</svg>
"""


def _said(decision: dict[str, Any]) -> str:
    """What the guard does, as the picture has it."""
    return {"proceed": "All is calm.", "stop": "The guard stops the car."}.get(
        decision["decision"], f"The guard: {decision['decision']}."
    )


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("record", type=Path)
    options.add_argument("out", type=Path)
    given = options.parse_args()
    given.out.write_text(film(given.record), encoding="utf-8")
