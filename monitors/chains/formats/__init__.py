"""File formats of chains and models: each module reads one format, and most also write
it.
"""
