"""Ops that compute with numbers: elementwise functions, reductions, scans and random numbers."""
