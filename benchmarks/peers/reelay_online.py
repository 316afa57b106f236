"""reelay's online monitor on the same frames; prints seconds a frame.

It has past operators alone, so its verdict on a response comes `steps` frames late.
"""

import json
import sys
import time

import reelay

arguments = json.loads(sys.argv[1])
k = arguments["steps"]
monitor = reelay.discrete_timed_monitor(
    pattern=f"historically(once[{k}:{k}]{{brake > 5.0}} -> once[0:{k}]{{speed < 0.5}})",
    semantics="boolean",
)
frames = [{"speed": s, "brake": b} for s, b in arguments["frames"]]
start = time.perf_counter()
for frame in frames:
    monitor.update(frame)
print((time.perf_counter() - start) / len(frames))
