"""The limit of open files: every connection is one, and so is every segment that is read or written.

Descriptors for the log are reserved: otherwise a commit would wait until a client leaves.
"""

import fcntl
import logging
import os
import resource
from dataclasses import dataclass

from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.sockets.accepted_sockets import SocketLimits

log = logging.getLogger(__name__)

FILES_WANTED = 65_536  # a hard limit may be a billion, and some systems walk through them all
# Beside the files of the journal: 64 of RocksDB, 64 segments sent over HTTP, some 20 that are flushed, read,
# compressed and copied to remote storage, as many of the process: listening sockets, the loop, the logs; and 16
# scrapes of metrics.
FILES_RESERVED = 208
HTTP_SHARE = 4  # of what is left, HTTP has a quarter at most: messages are what the broker is for
# Of what is left, the port of nodes or standbys has an eighth at most: a few links, and who is not introduced
# yet. That may be as many clients of HTTP of a follower as it takes at once, when it passes them on.
NODE_SHARE, NODE_SOCKETS_MAX = 8, 512


def raise_open_files_limit() -> int:
    """Raise the soft limit of open files, up to FILES_WANTED.

    Returns:
        The limit in force.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:
            log.warning("the limit of %d open files cannot be raised: %s", soft, error)
            return soft
        return wanted
    return FILES_WANTED if soft == resource.RLIM_INFINITY else soft


def make_room_for_open_files(allowed: int) -> None:
    """Make the kernel's table of open files as large as it can become; call it before there are threads.

    Otherwise the kernel doubles a full table later, and the thread that opens the next file, also the event
    loop, waits 5 to 20 ms for all processors (`synchronize_rcu` in Linux).

    Args:
        allowed: the limit of open files; at most FILES_WANTED count.
    """
    count = min(allowed, FILES_WANTED)
    file = os.eventfd(0)
    try:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, count - 1))
    except OSError as error:  # then the table grows on demand
        log.warning("no room for %d open files before they are there: %s", count, error)
    finally:
        os.close(file)


def open_files_limit() -> int:
    """The limit of open files of this process."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return FILES_WANTED if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True, slots=True)
class OpenFilesShares:
    """The limits of sockets at each kind of door."""

    amqp: SocketLimits
    http: SocketLimits
    nodes: SocketLimits


def socket_limits(config: BrokerConfig, files: int) -> OpenFilesShares:
    """The limits of sockets.

    Args:
        files: the limit of open files; of a very low one, half is reserved.
    """
    reserved = min(FILES_RESERVED + config.journal_files_max, files // 2)
    left = files - reserved
    nodes = 0
    if config.cluster_nodes or config.standby_listen:
        nodes = min(NODE_SOCKETS_MAX, left // NODE_SHARE)
        left -= nodes
    sockets = 2 if config.cluster_nodes else 1  # of a client of HTTP that may be passed on
    http = min(config.management_connections_max, left // HTTP_SHARE // sockets)
    amqp = min(config.connections_max or left, left - sockets * http)
    return OpenFilesShares(
        _limits(amqp, config.connections_unauthenticated_max),
        _limits(http, config.management_connections_unauthenticated_max),
        _limits(nodes, config.connections_unauthenticated_max),
    )


def _limits(count: int, unauthenticated: int) -> SocketLimits:
    count = max(count, 1)
    return SocketLimits(count, min(unauthenticated, max(1, count // 2)))
