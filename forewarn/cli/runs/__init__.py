"""Commands that run scenarios, and measure what came of it."""
