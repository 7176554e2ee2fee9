"""Arguments of declarations, policies and limits: checks and meaning."""
