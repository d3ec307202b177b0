"""The engine fires nodes: matching, compiled firings, steps, and the program installed as actors."""
