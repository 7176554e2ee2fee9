"""The measurements of `routelog perf`, for any AMQP broker."""
