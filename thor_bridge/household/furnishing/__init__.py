"""Rooms and what stands in them, as an episode begins."""
