"""The actor model alone: systems, refs, mailboxes, asks, supervision and timers."""
