"""CARLA's map: its lanes, its roads, and who is where on them."""
