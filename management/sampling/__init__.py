"""The last ten minutes of all counters, and what they say: rates, samples, averages."""
