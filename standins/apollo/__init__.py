"""A stand-in for Apollo: cyber_bridge, channels, and a planner with Apollo's quirks."""

from __future__ import annotations
