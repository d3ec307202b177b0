"""Many processes behind one facade: clusters, and training on them."""
