"""Graphs run as actors: nodes, the actors of state, optimizers, and parts in other processes."""
