"""All exchanges and bindings of a vhost as one graph."""
