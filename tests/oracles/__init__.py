"""What the engine must agree with, by definition alone; `python -m tests.oracles`."""
