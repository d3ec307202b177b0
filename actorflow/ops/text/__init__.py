"""Ops on bytes: strings, encodings and the records of input files."""
