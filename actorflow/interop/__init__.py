"""Ways in and out: models of other tools."""
