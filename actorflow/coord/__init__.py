"""Will hold the coordination of replicas: membership, sharding, aggregation, staleness, barriers."""
