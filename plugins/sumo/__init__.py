"""A driving world in SUMO, which runs in this process through libsumo."""
