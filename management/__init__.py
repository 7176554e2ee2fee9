"""The operators' doors: the HTTP API, the command line that uses it, and metrics."""

from routelog.management.calls.broker_side import BrokerSide, NodeFacts
from routelog.management.calls.host_names import HostNames
from routelog.management.commands.commands import operator_commands
from routelog.management.commands.log_command import tail_log
from routelog.management.commands.rabbitmqctl_names import rabbitmqctl_names
from routelog.management.metrics.watched import WatchedBroker, WatchedNode
from routelog.management.server.metrics_server import MetricsServer
from routelog.management.server.server import ManagementServer, prepare

__all__ = [
    "BrokerSide",
    "HostNames",
    "ManagementServer",
    "MetricsServer",
    "NodeFacts",
    "WatchedBroker",
    "WatchedNode",
    "operator_commands",
    "prepare",
    "rabbitmqctl_names",
    "tail_log",
]
