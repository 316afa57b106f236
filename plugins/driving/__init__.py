"""What all driving worlds share: roads, senses, foresight, and how a car stops."""
