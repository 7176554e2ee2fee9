"""The bytes of the protocol: parsed and built, without I/O."""
