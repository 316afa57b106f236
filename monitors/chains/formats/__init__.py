"""File formats of chains and models; each module reads one, and most also write it."""
