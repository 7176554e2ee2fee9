"""From a request to its handler, and from its answer to bytes."""
