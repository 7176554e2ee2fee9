# From a run of publishes to the ends of its queues, for the compiled kernel.
from routelog.log_backend.journal.receipt cimport Progress, Receipt


cdef class Appending:
    cdef object _is_over
    cdef object _batches
    cdef object _to
    cdef object _records
    cdef public object indexes
    cdef bint _waited
    cdef Progress _progress
    cdef long long _written
    cdef long long _durable
    cdef Receipt _others
    cdef public bint is_under_way
    cdef public object behind
    cdef public dict refused
    cdef public list returned
    cdef public list outcomes
    cdef public Py_ssize_t queues
    cdef public long long routed
    cpdef begin(self, bint waited)
    cpdef append(self, batches, bint whole)
    cpdef append_run(self, records, to, indexes)
    cdef _go(self, bint whole, bint resumed)
