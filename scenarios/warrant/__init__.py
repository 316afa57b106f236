"""Warrants: guards with a certificate, made from users' own logs."""
