"""What the processes of a cluster are doing, asked from outside."""
