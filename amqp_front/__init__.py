"""Connections, channels and frames: what RabbitMQ clients talk to."""

from routelog import log_backend  # noqa: F401  (first: it decides whether the kernel runs compiled)
