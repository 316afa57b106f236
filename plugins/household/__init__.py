"""What the worlds of household robots share: how they are read, how a robot is held."""
