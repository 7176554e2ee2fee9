"""What belongs to the process: its data directory, logs, memory and open files."""
