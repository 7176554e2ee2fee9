"""The last day of all counters, and what they say: rates, samples, averages."""
