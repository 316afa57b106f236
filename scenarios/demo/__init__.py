"""Traces of two small synthetic worlds, to try Forewarn without a simulator.

A test checks that they can be generated again, byte for byte.
"""
