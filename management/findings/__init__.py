"""What is wrong with the broker, or worth a look: by kind, the worst first, and in one sentence."""
