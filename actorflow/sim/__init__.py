"""The simulated world: virtual time, and every choice of a run drawn, recorded and replayed."""
