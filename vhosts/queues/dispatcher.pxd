# Dispatch, for the compiled kernel.
from routelog.log_backend.records.record_batch cimport Records
from routelog.vhosts.messages.delivery cimport Delivery
from routelog.vhosts.partitions.queue_partition cimport QueuePartition
from routelog.vhosts.queues.backlog cimport Backlog
from routelog.vhosts.queues.credit_ring cimport CreditRing


cdef class Dispatcher:
    cdef public object vhost
    cdef public object name
    cdef public list partitions
    cdef public list consumers
    cdef public bint deleted
    cdef readonly bint paused
    cdef readonly object _scheduler
    cdef Backlog _backlog
    cdef CreditRing _ring
    cdef Py_ssize_t _next_partition
    cdef public int _state
    cdef readonly bint is_behind
    cdef public object on_caught_up
    cdef long long _ends_seen
    cpdef has_credit(self, consumer)
    cpdef on_ready(self)
    cpdef _serve(self)
    cpdef _release_publishers(self)
    cdef long long _hand_out(self) except? -1
    cdef long long _look_at_ends(self) except? -1
    cdef long long _count_ready(self) except? -1
    cdef long long _count_unacked(self) except? -1
    cdef _next_with_credit(self)
    cdef _order(self)
    cdef _take_next(self, order, long long count)


cpdef long long delivery_cost(Delivery delivery) except? -1
