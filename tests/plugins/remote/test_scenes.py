"""What a loop shows of its world reaches those who watch, and nothing else does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from forewarn.abstractions.serial import validated
from forewarn.plugins.contracts import Shape, Thing
from forewarn.plugins.remote.messages import MOST_THINGS, FrameMessage, Malformed
from forewarn.plugins.remote.session import Session
from tests.plugins.doubles import Onlooker
from tests.plugins.remote.serving import CALM, pool

LANE = ["lane", 3.2, [[0.0, 0.0], [50.0, 0.0]]]
EGO = ["me", "ego", 5.0, 0.0, 90.0, 4.5, 1.8]


def message(number: int, **more: Any) -> bytes:
    frame = {"sequence": number, "time_s": number / 10.0, "signals": CALM, **more}
    return json.dumps(frame).encode()


def test_a_scene_is_shown_from_the_message_on_that_has_it() -> None:
    onlooker = Onlooker()
    with Session(pool(listeners=[lambda: onlooker]).lend, None) as session:
        session.take(message(0, scene={"ground": [LANE], "things": [EGO]}))
        session.take(message(1))
        moved = [*EGO[:2], 6.0, *EGO[3:], "hit", 1.4, "the ego"]
        session.take(message(2, scene={"things": [moved]}))
    assert onlooker.ground == [Shape("lane", ((0.0, 0.0), (50.0, 0.0)), 3.2)]
    first, same, last = onlooker.seen
    assert first == same == [Thing("me", "ego", 5.0, 0.0, 90.0, 4.5, 1.8)]
    assert (last[0].x, last[0].state, last[0].label) == (6.0, "hit", "the ego")


@pytest.mark.parametrize(
    "scene",
    [
        [],
        {"sky": []},
        {"things": {}},
        {"things": [EGO] * (MOST_THINGS + 1)},
        {"things": [["me", "ego", float("nan"), 0, 0, 1, 1]]},
        {"things": [["me", "dragon", 0, 0, 0, 1, 1]]},
        {"things": [["m" * 500, "ego", 0, 0, 0, 1, 1]]},
        {"things": [["me", ["ego"], 0, 0, 0, 1, 1]]},
        {"things": ["me"]},
        {"things": [["me", "ego", True, 0, 0, 1, 1]]},
        {"ground": [["lane", 3.0, "here"]]},
        {"ground": [["lane", 3.0, [[0.0]]]]},
        {"ground": [["lane", 1e9, []]]},
    ],
)
def test_invalid_scene_is_rejected(scene: Any) -> None:
    frame = {"sequence": 0, "time_s": 0.0, "signals": {}, "scene": scene}
    with pytest.raises(Malformed):
        validated(FrameMessage, frame, "", Malformed)
