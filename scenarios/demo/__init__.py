"""Traces of two small synthetic worlds, to try Forewarn without a simulator.

A test generates them again, byte for byte.
"""
