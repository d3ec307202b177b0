"""The graph as plain data: ops, nodes, bodies, the builder and autodiff."""
