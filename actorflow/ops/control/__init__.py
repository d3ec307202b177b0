"""Control flow: branches, loops, maps over rows, tensor lists, and code of the user as nodes."""
