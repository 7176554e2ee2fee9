# The confirms of a channel as its publisher gets them, for the compiled kernel.
from routelog.amqp_front.publishing.confirms cimport Confirms
from routelog.log_backend.journal.receipt cimport Progress
from routelog.vhosts.counters.counters cimport MessageCounters


cdef class ConfirmSender:
    cdef object _channel
    cdef Progress _progress
    cdef Confirms _confirms
    cdef MessageCounters _counters
    cdef bint _waits
    cdef bint _is_held
    cdef bint _is_due
    cpdef published(self, long long count, refused, needed)
    cpdef catch_up(self)
    cpdef journal_reached(self)
    cdef _wait_on(self)
    cdef _answer(self, taken, method)
