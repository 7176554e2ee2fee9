"""From a publish run to queues, returns and confirms."""
