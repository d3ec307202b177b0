"""Kernels of `ops.array`."""
