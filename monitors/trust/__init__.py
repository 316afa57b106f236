"""How far a learned chain can be trusted: reliability and resampling."""
