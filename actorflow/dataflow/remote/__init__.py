"""The runner of a process runs parts of steps for sessions anywhere."""
