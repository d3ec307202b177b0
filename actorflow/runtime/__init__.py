"""The ground under everything that runs.

Clock, event loop, messages, tags, cancellation, and whose code failed.
"""
