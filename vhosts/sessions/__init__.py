"""Sessions: what a front and the leader of a shard say to each other, and both their ends."""
