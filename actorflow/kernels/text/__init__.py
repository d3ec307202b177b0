"""Kernels of `ops.text`, on the host only."""
