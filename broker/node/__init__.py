"""What a node is called, how it is configured, and what is measured of it."""
