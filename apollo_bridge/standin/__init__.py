"""A stand-in for Apollo: cyber_bridge, channels, and a planner with Apollo's ways."""
