"""Records of the topology, of users and of policies."""
