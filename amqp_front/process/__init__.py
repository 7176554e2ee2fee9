"""One broker process: start and stop."""
