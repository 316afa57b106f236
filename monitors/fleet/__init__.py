"""Fleet learning: collects transition counts from guards and merges them into a
model.
"""
