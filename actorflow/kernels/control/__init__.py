"""Kernels of `ops.control`."""
