# cython: annotation_typing=False
# mypy: allow-untyped-decorators, no-warn-return-any, disable-error-code="index,name-defined"
"""What the records of a run are marked with."""

import cython

from routelog.amqp_front.wire.command import CARBON_COPY, PublishRun
from routelog.amqp_front.wire.single_run import has_blind_copies
from routelog.log_backend import BLIND_COPIES, EXPIRATION, EXPIRING, PERSISTENT

_PERSISTENT = cython.declare(cython.int, PERSISTENT)
_EXPIRATION = cython.declare(cython.uint, EXPIRATION)
_CARBON_COPY = cython.declare(cython.uint, CARBON_COPY)


@cython.ccall
@cython.returns(cython.int)
@cython.exceptval(-1)
@cython.locals(run=PublishRun, attributes=cython.int)
def record_attributes(run: PublishRun) -> int:
    """The attributes of the records that are made of a run."""
    attributes = _PERSISTENT if run.persistent else 0
    if run.property_flags & _CARBON_COPY and has_blind_copies(run):
        attributes |= BLIND_COPIES
    return attributes | EXPIRING if run.property_flags & _EXPIRATION else attributes
