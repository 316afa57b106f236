"""A stand-in for Apollo: cyber_bridge, channels, and a planner that behaves like
Apollo's.
"""

from __future__ import annotations
