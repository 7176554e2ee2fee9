"""What the data plane counts: plain integers that begin at 0 with the process."""
