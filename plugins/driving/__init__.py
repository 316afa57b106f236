"""Code shared by all driving worlds: road networks, signals, and how a car stops."""
