"""Connections, channels and frames: what RabbitMQ clients talk to."""
