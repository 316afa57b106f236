"""What the engine must agree with, from definitions alone; `python -m tests.oracles`."""
