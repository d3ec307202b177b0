"""Links between processes: messages arrive once and in order, and credit bounds them."""
