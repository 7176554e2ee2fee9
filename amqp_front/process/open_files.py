"""The limit of open files: every connection is one, and so is every segment that is read or written.

Descriptors for the log are reserved: otherwise a commit would wait until a client leaves.
"""

import fcntl
import logging
import os
import resource

from routelog.amqp_front.node.accepted_sockets import SocketLimits
from routelog.amqp_front.node.configuration import BrokerConfig

log = logging.getLogger(__name__)

FILES_WANTED = 65_536  # a hard limit may be a billion, and some systems walk through them all
# Beside the files of the journal: 64 of RocksDB, 64 segments sent over HTTP, some 20 that are flushed, read,
# compressed and copied to remote storage, as many of the process: listening sockets, the loop, the logs; and 16
# scrapes of metrics.
FILES_RESERVED = 208
HTTP_SHARE = 4  # of what is left, HTTP has a quarter at most: messages are what the broker is for


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


def socket_limits(config: BrokerConfig, files: int) -> tuple[SocketLimits, SocketLimits]:
    """The limits of client sockets, of AMQP and of the HTTP API.

    Args:
        files: the limit of open files; of a very low one, half is reserved.
    """
    reserved = min(FILES_RESERVED + config.journal_files_max, files // 2)
    left = files - reserved
    http = min(config.management_connections_max, left // HTTP_SHARE)
    amqp = min(config.connections_max or left, left - http)
    log.info(
        "of %d open files %d are for AMQP, %d for HTTP, %d for the log", files, amqp, http, reserved
    )
    return (
        _limits(amqp, config.connections_unauthenticated_max),
        _limits(http, config.management_connections_unauthenticated_max),
    )


def _limits(count: int, unauthenticated: int) -> SocketLimits:
    count = max(count, 1)
    return SocketLimits(count, min(unauthenticated, max(1, count // 2)))
