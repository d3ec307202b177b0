"""The optimizer actor and its rules: proposals, commit groups and optimizer state."""
