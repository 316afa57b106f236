"""Traces from two small synthetic worlds, for trying Forewarn without a simulator.

`generate` wrote these traces, and reproduces them exactly.
"""
