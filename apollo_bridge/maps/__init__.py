"""Apollo's map, and what can be said without one."""
