"""Coordination of replicas: membership, policies, permits and commits."""
