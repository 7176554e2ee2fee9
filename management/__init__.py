"""The operators' doors: the HTTP API, and the command line that uses it."""

from management.broker_side import BrokerSide, NodeFacts
from management.commands import operator_commands
from management.server import ManagementServer

__all__ = ["BrokerSide", "ManagementServer", "NodeFacts", "operator_commands"]
