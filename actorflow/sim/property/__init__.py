"""Laws about distributed programs: drawn runs, shrinking, and replay."""
