# Which offsets are settled, for the compiled kernel.


cdef class SettledSet:
    cdef public long long low_water
    cdef public dict chunks
    cdef public dict dirty_chunks
    cpdef long long settle(self, long long first, long long end) except? -1
