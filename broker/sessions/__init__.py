"""Sessions with the leader of a shard: their sockets, and who finds the leader."""
