"""The ready ring decides which actor has its turn, and for how long."""
