"""Refs to actors of other processes, and what is open between two processes."""
