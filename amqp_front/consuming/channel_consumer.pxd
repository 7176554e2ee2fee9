# A consumer of a channel, for the compiled kernel.
from routelog.amqp_front.consuming.unacked cimport new_run
from routelog.log_backend.records.record_batch cimport Records
from routelog.vhosts.messages.delivery cimport Delivery


cdef class ChannelConsumer:
    cdef object _channel
    cdef bytes _wire_tag
    cdef long long _until_sample
    cdef public object queue
    cdef public object source
    cdef public object tag
    cdef public bint no_ack
    cdef public bint exclusive
    cdef public object priority
    cdef public long long prefetch
    cdef public long long unacked
    cdef public long long lapsed
    cdef public object lease
    cdef public object timeout
    cdef public long long timed_out
    cpdef long long credit(self) except? -1
    cpdef deliver(self, Delivery delivery)
    cdef _parts(self, Delivery delivery, long long first_tag)
    cpdef _added_headers(self, Delivery delivery)
