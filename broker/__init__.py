"""What a node has for all its clients, whatever they speak: sockets, waiting, login, the process."""

from routelog import log_backend
from routelog.broker.identity.client_certificate import Certificate, distinguished_name, login_name
from routelog.broker.identity.default_passwords import warn_of_default_passwords
from routelog.broker.listeners.acceptor import Serve
from routelog.broker.listeners.certificate_renewal import CertificateRenewal, Certificates
from routelog.broker.listeners.http_listeners import HttpListeners, MetricsListener
from routelog.broker.listeners.leaders import Leader, Leaders
from routelog.broker.listeners.listeners import CannotListen, Listeners
from routelog.broker.listeners.passed_doors import PassedDoors
from routelog.broker.loop.cork import Cork
from routelog.broker.loop.garbage_pace import GarbagePace
from routelog.broker.loop.loop_monitor import LoopMonitor
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.node.delivery_samples import DeliverySamples
from routelog.broker.node.node_name import node_name
from routelog.broker.process.data_directory import (
    START_FAULTS,
    StartError,
    bad_definitions,
    open_logs,
)
from routelog.broker.process.event_log import EventLog
from routelog.broker.process.log_exchange import LogExchange
from routelog.broker.process.memory_allocator import MemoryTrim
from routelog.broker.process.mirror import Mirror
from routelog.broker.process.open_files import open_files_limit, socket_limits
from routelog.broker.process.recent_log import RecentLog
from routelog.broker.sockets.accepted_sockets import AcceptedSocket, AcceptedSockets
from routelog.broker.sockets.client_socket import (
    CLOSE_SECONDS_MAX,
    ClientIdentity,
    ClientSocket,
    client_described,
    ends_for,
    ends_name,
)
from routelog.broker.sockets.proxy_header import AMQP, HTTP, Endpoint, PassedClient, passed_header
from routelog.broker.sockets.socket_reset import reset
from routelog.broker.sockets.stalled_sockets import StalledSockets
from routelog.broker.waiting.confirm_board import ConfirmBoard
from routelog.broker.waiting.confirm_deadline import ConfirmDeadline
from routelog.broker.waiting.gate import Gate, PublisherGate
from routelog.broker.waiting.intake_budget import (
    Charge,
    IntakeBudget,
    IntakeFull,
    IntakeLimits,
    IntakeShare,
)
from routelog.broker.waiting.publisher_pace import PublisherPace
