"""What the nodes of a cluster tell each other of their clients."""
