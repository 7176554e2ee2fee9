"""The limit of open files: every connection is one, and so is every segment that is read or written."""

import fcntl
import logging
import os
import resource

log = logging.getLogger(__name__)

FILES_WANTED = 65_536  # a hard limit may be a billion, and some systems walk through them all


def raise_open_files_limit() -> int:
    """Have the system allow this process as many open files as it may, up to FILES_WANTED.

    Returns:
        How many it allows.
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
    """Have the system's table of this process's open files be as large as it will be; before there are threads.

    Later it is doubled when it is full, and whoever opens the next file, the event loop as well, waits for 5 to
    20 ms, until no processor can be in the midst of reading the old one (`synchronize_rcu` in Linux).

    Args:
        allowed: by the system; there is no room for more than FILES_WANTED.
    """
    count = min(allowed, FILES_WANTED)
    file = os.eventfd(0)
    try:
        os.close(fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, count - 1))
    except OSError as error:  # the table grows when it has to
        log.warning("no room for %d open files before they are there: %s", count, error)
    finally:
        os.close(file)
