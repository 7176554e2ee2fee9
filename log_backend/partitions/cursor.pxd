# The progress of a reader, for the compiled kernel.
from routelog.log_backend.settlement.settled cimport SettledSet


cdef class Cursor:
    cdef public long long number
    cdef public SettledSet settled
    cdef public long long handed_out
    cdef object _on_changed
    cdef bint _announced
    cdef long long _handed_out_journaled
    cdef long long _redelivered_max
    cdef object _delivery_counts
    cdef tuple _committed
    cdef readonly list _acked
    cdef dict _settled_otherwise
    cdef dict _packed
    cdef readonly list _redelivered
    cdef list _replayed
    cpdef long long settle(self, long long first, long long end, reason=*) except? -1
    cpdef hand_out(self, long long end)
