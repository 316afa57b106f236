"""Commands that make a model, or ask one."""
