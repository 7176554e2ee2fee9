"""What Prometheus scrapes: names, values, and their text."""
