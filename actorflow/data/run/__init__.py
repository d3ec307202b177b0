"""A pipeline that runs: its actors, the buffers between them, and the stream that comes out."""
