# Publisher confirms, for the compiled kernel.
from routelog.log_backend.journal.journal_positions cimport JournalPositions


cdef class Confirms:
    cdef public long long next_tag
    cdef readonly long long answered
    cdef long long _confirmed
    cdef object _waiting
    cpdef add(self, long long count, needed)
    cpdef bint waits(self) except *
    cpdef take_covered(self, JournalPositions reached)
    cdef _settled(self, long long last)
