"""SUMO as an embedded driving simulator, through libsumo; nothing else is needed."""
