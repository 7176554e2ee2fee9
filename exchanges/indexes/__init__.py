"""One index of bindings for each type of exchange."""
