"""What the data plane measures of itself, for operators."""
