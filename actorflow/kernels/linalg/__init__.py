"""Kernels of `ops.linalg`."""
