"""What `routelog perf` measures of any AMQP broker."""
