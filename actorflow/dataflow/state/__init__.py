"""The actors that hold state of a graph, each beside the rule that it obeys."""
