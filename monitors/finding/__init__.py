"""Finds predicates: learns from runs which conditions predict a violation."""
