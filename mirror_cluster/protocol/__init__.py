"""What replicas of a shard tell each other and the coordinator: blocks, messages, the shard's record."""
