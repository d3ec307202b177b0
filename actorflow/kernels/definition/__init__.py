"""What every kernel is defined with: the registry, precision, blocks and CuPy's differences."""
