"""The event loop: what is sent at the end of a pass, who holds it, and when garbage is looked for."""
