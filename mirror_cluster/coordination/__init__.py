"""The coordinator: the one small record of a shard on which all nodes agree, and which nodes are alive."""
