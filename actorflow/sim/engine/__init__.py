"""The engine of a simulation: its event loop, schedulers, and the patched environment."""
