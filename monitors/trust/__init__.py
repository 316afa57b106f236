"""How far a learned chain can be trusted: memory tests, reliability, resampling."""
