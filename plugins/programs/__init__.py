"""Guard programs with their toolboxes, and models that write guard programs."""
