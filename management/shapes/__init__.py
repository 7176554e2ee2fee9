"""What the HTTP API answers, as types: the OpenAPI document has their schemas."""
