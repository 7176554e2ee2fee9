"""Rows of the HTTP API as types: views fill and return them, the OpenAPI document has their schemas."""
