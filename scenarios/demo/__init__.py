"""Traces of two small synthetic worlds, to try Forewarn without a simulator.

`generate` wrote these traces and reproduces them byte for byte.
"""
