"""What a node is called."""


def node_name(wanted: str, host: str) -> str:
    """The node's name in full: a name without a host gets the first part of this one's, as RabbitMQ does it."""
    return wanted if "@" in wanted else f"{wanted}@{host.partition('.')[0]}"
