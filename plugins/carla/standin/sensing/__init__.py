"""What the stand-in's sensors see."""
