"""Partitioning cuts a program into one a process."""
