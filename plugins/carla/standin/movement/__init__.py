"""Who moves in the stand-in, and how."""
