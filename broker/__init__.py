"""What a node has for all its clients, whatever they speak: sockets, waiting, login, the process."""

from routelog import log_backend  # first: it decides whether the kernel runs compiled
from routelog.broker.identity.client_certificate import distinguished_name
from routelog.broker.identity.login import LoginClient, Logins, proved_user
from routelog.broker.listeners.shared_page import ProcessState
from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.node.direct_reply import ADDRESS_PREFIX, PSEUDO_QUEUE
from routelog.broker.process.data_directory import StartError
from routelog.broker.process.services import NodeServices
from routelog.broker.sockets.accepted_sockets import AcceptedSocket
from routelog.broker.sockets.client_socket import (
    CLOSE_SECONDS_MAX,
    ClientIdentity,
    ClientSocket,
    client_described,
    ends_for,
    ends_name,
)
from routelog.broker.sockets.proxy_header import Endpoint
from routelog.broker.waiting.gate import Gate, PublishersWait
from routelog.broker.waiting.intake_budget import Charge, IntakeFull, IntakeShare
from routelog.broker.waiting.publish_rates import PublishPace, PublishRates
