"""The web page: HTML over the handlers of the HTTP API."""
