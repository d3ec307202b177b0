"""Coordination of several workers: membership, policies, permits, commits, and the actors that obey them."""
