"""Model checking of chains against properties in PCTL and CTL, with several engines."""
