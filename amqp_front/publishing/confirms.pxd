# Publisher confirms, for the compiled kernel.
from routelog.log_backend.journal.receipt cimport Receipt


cdef class Confirms:
    cdef public long long next_tag
    cdef readonly long long answered
    cdef long long _confirmed
    cdef object _waiting
    cpdef add(self, long long count, needed)
    cpdef needed(self)
    cpdef take_covered(self)
    cdef _settled(self, long long last)
