"""Users, passwords, permissions, and limits on them."""
