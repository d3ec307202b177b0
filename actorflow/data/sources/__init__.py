"""Where elements come from: arrays, files, functions, queues, and sources of sources."""
