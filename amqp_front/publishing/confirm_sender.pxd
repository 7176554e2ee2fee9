# The confirms of a channel as its publisher gets them, for the compiled kernel.
from routelog.amqp_front.publishing.confirms cimport Confirms
from routelog.vhosts.counters.counters cimport MessageCounters


cdef class ConfirmSender:
    cdef object _channel
    cdef object _board
    cdef Confirms _confirms
    cdef MessageCounters _counters
    cpdef published(self, long long count, refused, needed)
    cdef _answer(self, taken, method)
