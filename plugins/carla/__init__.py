"""CARLA: guards for its clients, and a server that stands in for the simulator."""
