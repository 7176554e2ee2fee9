# What the records of a run are marked with, for the compiled kernel.
from routelog.amqp_front.wire.command cimport PublishRun


cpdef int record_attributes(PublishRun run) except? -1
