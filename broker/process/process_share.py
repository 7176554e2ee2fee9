"""What one of several processes of a node may take of its limits."""

import msgspec

from routelog.broker.node.configuration import BrokerConfig
from routelog.log_backend import memory_limit

DEFINITIONS_SHARE = 4  # of the memory that there is, definitions may have a quarter by default


def process_share(config: BrokerConfig) -> BrokerConfig:
    """The configuration of each process of a node: budgets of memory are divided.

    The largest message fits, and a quarter is left to others when one user has all of his.
    """
    count = config.processes
    of_user = max(config.intake_user_bytes_max // count, config.intake_connection_bytes_max)
    return msgspec.structs.replace(
        config,
        intake_bytes_max=max(config.intake_bytes_max // count, of_user + of_user // 3),
        intake_user_bytes_max=of_user,
        definitions_bytes=definitions_bytes(config) // count,
    )


def definitions_bytes(config: BrokerConfig) -> int:
    """How much memory definitions may take in all processes of the node."""
    return config.definitions_bytes or memory_limit() // DEFINITIONS_SHARE
