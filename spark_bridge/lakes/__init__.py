"""Tables that `routelog export` fills."""
