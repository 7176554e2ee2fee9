"""What a client of AMQP is told by a node that passes it on, or cannot."""
