"""Properties of chains in PCTL and CTL: read, and answered by several engines."""
