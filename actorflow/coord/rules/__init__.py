"""The rules of coordinator, shards and workers, without actors, loops or clocks."""
