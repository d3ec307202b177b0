"""The links between processes: so far the codec; credit, delivery and channels are to come."""
