"""Studies: programs that ask a question of actorflow and answer it with a table and a figure."""
