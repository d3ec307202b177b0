"""A session runs steps of a graph, in one process or over many."""
