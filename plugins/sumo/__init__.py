"""SUMO as an embedded driving simulator, through libsumo."""
