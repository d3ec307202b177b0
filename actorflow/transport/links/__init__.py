"""Links obey the rules over a wire, in one process or over shared memory."""
