"""One broker process: start, stop, logs, limits of the system."""
