"""Many processes behind one facade, and training on them."""
