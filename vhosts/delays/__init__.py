"""Messages that an exchange holds until they are due."""
