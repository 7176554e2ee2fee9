"""Credit, deliveries and settlement."""
