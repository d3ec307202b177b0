"""Exit codes of the command line that more than one command has."""

STOPPED = 130
"""The exit code of a command that Ctrl-C stopped."""

UNREAD = 141
"""The exit code of a command whose output nobody reads any more: that which a shell shows after SIGPIPE."""
