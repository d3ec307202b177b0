"""The links between processes: codec, credit, delivery and channels; the wire of ZeroMQ is to come."""
