"""Who a client is, and how that is proved."""
