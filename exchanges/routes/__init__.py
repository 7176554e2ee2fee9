"""From an exchange, a routing key and headers to queues."""
