"""rtamt's online monitor on the same frames; prints seconds a frame.

The past form by hand: rtamt 0.4.10 shifts `eventually` under an implication twice.
Run apart from the rest: rtamt warns at import.
"""

import json
import sys
import time

import rtamt

arguments = json.loads(sys.argv[1])
k = arguments["steps"]
monitor = rtamt.StlDiscreteTimeSpecification()
for name in ("speed", "brake", "out"):
    monitor.declare_var(name, "float")
monitor.spec = f"out = (once[{k},{k}](brake > 5)) implies (once[0,{k}](speed < 0.5))"
monitor.parse()
frames = [{"speed": s, "brake": b} for s, b in arguments["frames"]]
start = time.perf_counter()
for i, frame in enumerate(frames):
    monitor.update(i, [("speed", frame["speed"]), ("brake", frame["brake"])])
print((time.perf_counter() - start) / len(frames))
