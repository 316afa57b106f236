"""A household robot."""
