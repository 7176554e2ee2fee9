"""Pages of one thing, in tabs: a queue, a group, an exchange, a connection, a rule."""
