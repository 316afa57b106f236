"""Traces to try Forewarn on before there is a simulator: two small made-up worlds.

They are synthetic: `generate` wrote them, and writes the same ones again.
"""
