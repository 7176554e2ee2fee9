"""A load tool for any AMQP 0-9-1 broker, with pre-encoded frames: it costs little itself."""
