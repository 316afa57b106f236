"""Guard programs with their toolboxes, and the models that write them."""
