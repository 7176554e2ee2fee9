"""The operators' doors: the HTTP API, and the command line that uses it."""

from routelog.management.calls.broker_side import BrokerSide, NodeFacts
from routelog.management.commands.commands import operator_commands
from routelog.management.server.server import ManagementServer

__all__ = ["BrokerSide", "ManagementServer", "NodeFacts", "operator_commands"]
