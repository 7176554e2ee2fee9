"""The services that all connections of a broker share."""
