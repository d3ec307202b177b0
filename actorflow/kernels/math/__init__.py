"""Kernels of `ops.math`."""
