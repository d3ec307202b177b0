"""What one process of a cluster runs, and how it finds the others."""
