"""Ops that make, shape, join, choose and reorder the elements of tensors."""
