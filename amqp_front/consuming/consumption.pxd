# What a channel consumes, for the compiled kernel.
from routelog.amqp_front.consuming.unacked cimport Unacked, UnackedRun, messages_of
from routelog.amqp_front.wire.command cimport SettleRun


cdef class Consumption:
    cdef object _channel
    cdef public object number
    cdef public object body_frame_max
    cdef public object vhost
    cdef public object counters
    cdef public long long next_tag
    cdef public long long prefetch
    cdef public long long channel_prefetch
    cdef object _shared
    cdef public Unacked unacked
    cdef set _partitioned
    cdef long long _held
    cdef public dict consumers
    cdef object _reply_tag
    cdef long long _first_woken
    cdef object _redelivery
    cdef object _settling
    cdef bint _is_closed
    cdef object _ack_timeouts
    cpdef long long credit(self) except? -1
    cpdef write_parts(self, parts)
    cpdef add_unacked(self, UnackedRun run)
    cpdef settle(self, SettleRun run)
    cdef _finish(self, runs, outcome)
    cdef list _take(self, SettleRun run)
    cpdef let_go(self, holder, long long count)
    cdef _end_runs(self, runs, outcome)
