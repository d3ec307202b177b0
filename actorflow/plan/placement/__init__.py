"""Placement chooses a device for every node."""
