"""The stand-in's map: roads, lights, stop lines, where people walk."""
