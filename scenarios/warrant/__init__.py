"""Warrants: a guard with a certificate, made from the logs that people have."""
