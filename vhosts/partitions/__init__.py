"""The partitions of a queue: dispatch, readers, priorities."""
