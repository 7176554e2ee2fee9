"""The life of a connection and of its channels."""
