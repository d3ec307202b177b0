"""Will hold the links between processes: codec, credit, delivery, and the channels under them."""
