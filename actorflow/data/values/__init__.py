"""The elements of pipelines: chunks, collated batches, padding, and chance per element."""
