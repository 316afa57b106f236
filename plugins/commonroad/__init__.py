"""Recorded CommonRoad scenes as a world; requires no extra package."""
