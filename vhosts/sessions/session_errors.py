"""Errors of a session's calls: raised at the leader, raised again at the front::

    msgpack: [name of the class, text, {attribute: value, ...}]      values: text, numbers, lists

The front raises the same class with the same text, so that whoever answers clients finds what it knows. Only
errors that name what a caller did wrong, or what the node cannot do, pass; any other one is a fault of the
leader, which has it in its log.
"""

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from routelog import exchanges
from routelog.log_backend import JournalFailed, MetadataUnavailable, NotReplicated
from routelog.vhosts import errors
from routelog.vhosts.sessions.session_message import BadSessionMessage

log = logging.getLogger(__name__)

FAULT = "an error of the broker"


_CLASSES: Mapping[str, type[Exception]] = {
    each.__name__: each
    for each in (
        *vars(exchanges).values(),
        *vars(errors).values(),
        JournalFailed,
        MetadataUnavailable,
        NotReplicated,
    )
    if isinstance(each, type) and issubclass(each, Exception)
}


def encode_error(error: BaseException) -> bytes:
    """An error as the front reads it; a fault of ours is logged here."""
    name = type(error).__name__
    if _CLASSES.get(name) is not type(error):
        log.error("a call of a front failed", exc_info=error)
        return msgspec.msgpack.encode([RuntimeError.__name__, FAULT, {}])
    fields = {
        key: value
        for key, value in vars(error).items()
        if isinstance(value, str | int | list | tuple)
    }
    return msgspec.msgpack.encode([name, str(error), fields])


def decode_error(content: Any) -> Exception:
    """The error that a decoded content stands for, to be raised.

    Returns:
        RuntimeError for a class that is not known here.

    Raises:
        BadSessionMessage: the content is no error.
    """
    try:
        name, text, fields = msgspec.convert(content, tuple[str, str, dict[str, Any]])
    except msgspec.ValidationError as fault:
        raise BadSessionMessage(f"an error that is none: {fault}") from None
    kind = _CLASSES.get(name, RuntimeError)
    error = kind.__new__(kind)
    vars(error).update(fields)
    error.args = (text,)
    return error
