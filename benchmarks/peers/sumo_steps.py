"""Guarded drives through SUMO's traffic, and how much of them is libsumo alone.

Takes a scenario and how many episodes; prints JSON: frames, and seconds of processor
time of all and of libsumo's own loading and stepping. It runs with the Forewarn, and
the `driving_steps`, that are first on the path.
"""

import json
import sys
import time

import driving_steps
import libsumo

spent_s = 0.0


def timed(call):
    def called(*arguments):
        global spent_s
        began_s = time.thread_time()
        try:
            return call(*arguments)
        finally:
            spent_s += time.thread_time() - began_s

    return called


def main() -> None:
    global spent_s
    name, episodes = sys.argv[1], int(sys.argv[2])
    libsumo.load = timed(libsumo.load)
    libsumo.simulationStep = timed(libsumo.simulationStep)
    libsumo.vehicle.setSpeed = timed(libsumo.vehicle.setSpeed)
    _, planned = driving_steps.guarded(name)
    runner, first = driving_steps.runner_of(planned), driving_steps.SEED
    runner.run(first)
    spent_s, began_s = 0.0, time.thread_time()
    seeds = range(first + 1, first + 1 + episodes)
    frames = sum(runner.run(seed).frames for seed in seeds)
    all_s = time.thread_time() - began_s
    print(json.dumps({"frames": frames, "all_s": all_s, "bare_s": spent_s}))


if __name__ == "__main__":
    main()
