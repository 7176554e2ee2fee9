"""From rows of Spark to confirmed publishes."""
