"""The limit of open files: every connection is one, and so is every segment that is read or written."""

import logging
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
