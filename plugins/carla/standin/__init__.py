"""A server that CARLA's own client drives: traffic and kinematics, no rendering."""
