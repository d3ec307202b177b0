"""A plan turns a graph, fetches and feeds into the program that each process runs; nothing here moves."""
