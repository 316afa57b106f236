"""CARLA's own recordings: written, read, told and played."""
