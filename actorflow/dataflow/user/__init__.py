"""Actors that run code of the user for nodes."""
