"""The road networks that ship, drawn by ourselves."""
