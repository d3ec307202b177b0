"""Kernels of `ops.nn`."""
