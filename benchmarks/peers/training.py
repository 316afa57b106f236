"""Training on runs that are collected, and how much of it is scikit-learn's boosting.

Takes a scenario and a folder of its traces; prints JSON: runs, and seconds of processor
time of all, reading included, and of the boosting. It runs with the Forewarn that is
first on the path, also with one from before its rooms had folders.
"""

import importlib
import json
import sys
import time
from pathlib import Path

from sklearn.ensemble import HistGradientBoostingClassifier

spent_s = 0.0


def fitted(model, *arguments, fit=HistGradientBoostingClassifier.fit, **more):
    global spent_s
    began_s = time.process_time()
    found = fit(model, *arguments, **more)
    spent_s += time.process_time() - began_s
    return found


def among(*modules):
    """The first of these modules that there is."""
    for name in modules:
        try:
            return importlib.import_module(f"forewarn.scenarios.{name}")
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(modules)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    HistGradientBoostingClassifier.fit = fitted
    runs = among("measuring.recorded", "recorded").recorded_runs(folder)
    scenario = among("schema").load_scenario(name)
    began_s = time.process_time()
    among("training.train", "train").train(scenario, runs)
    all_s = time.process_time() - began_s
    print(json.dumps({"runs": len(runs), "all_s": all_s, "boosting_s": spent_s}))


if __name__ == "__main__":
    main()
