"""What all connections of a broker share."""
