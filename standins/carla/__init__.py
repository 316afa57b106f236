"""A stand-in for CARLA's server: its protocol and traffic, without rendering."""
