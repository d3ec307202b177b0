"""Simulated hosts, the network between them, and what can be done to both."""
