"""How messages reach queues."""
