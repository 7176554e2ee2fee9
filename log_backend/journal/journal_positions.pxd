# Two positions of the journal, for the compiled kernel.


cdef class JournalPositions:
    cdef readonly long long written
    cdef readonly long long durable
    cpdef bint cover(self, JournalPositions needed) except *
