"""The robot's brain: what it plans, what it says, and the tasks it is given."""
