"""A stand-in for Apollo: a cyber_bridge server, Cyber RT channels, and a planner that
handles commands as Apollo's planner does.
"""

from __future__ import annotations
