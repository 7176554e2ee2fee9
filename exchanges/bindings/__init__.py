"""What is declared and what is routed: exchanges, bindings, routes, messages."""
