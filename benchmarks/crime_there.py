"""Computes CriMe's measures for `crime.py`, in an environment with commonroad-crime.

python crime_there.py < asked.json > told.json
"""

import contextlib
import json
import logging
import math
import sys
import warnings

from commonroad.common.file_reader import CommonRoadFileReader
from commonroad_crime.data_structure.configuration import CriMeConfiguration
from commonroad_crime.measure import HW, PET, THW, TTC, ALongReq

PAIRWISE = {"HW": HW, "THW": THW, "TTC": TTC, "ALongReq": ALongReq}


def value(measure, other, step):
    """Returns a measure with respect to another vehicle at a step; None if CriMe has no
    value.
    """
    try:
        found = float(measure.compute(other, step, verbose=False))
    except Exception:
        return None
    return found if math.isfinite(found) else None


def told(asked):
    scenario, _ = CommonRoadFileReader(asked["file"]).open(lanelet_assignment=True)
    config = CriMeConfiguration()
    config.update(ego_id=asked["ego"], sce=scenario)
    made = {name: kind(config) for name, kind in PAIRWISE.items()}
    others = [
        o.obstacle_id for o in scenario.obstacles if o.obstacle_id != asked["ego"]
    ]
    steps = {
        step: {
            name: [v for o in others if (v := value(measure, o, step)) is not None]
            for name, measure in made.items()
        }
        for step in asked["steps"]
    }
    pet = PET(config)
    passed = [v for o in others if (v := value(pet, o, asked["first"])) is not None]
    return {"steps": steps, "PET": passed}


def main():
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    found = []
    with contextlib.redirect_stdout(sys.stderr):
        for asked in json.load(sys.stdin):
            try:
                found.append(told(asked))
            except Exception as error:
                found.append({"error": f"{type(error).__name__}: {error}"})
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
