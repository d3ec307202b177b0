"""Branches, loops and atomic blocks become nodes of a flat graph, and state gets its order."""
