"""Launching starts named processes, restarts them by a rule, and leaves none behind."""
