"""Training a program: epochs, batches, positions, and the node that updates the variables."""
