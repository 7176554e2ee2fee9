"""One virtual host: its queues, exchanges and bindings."""
