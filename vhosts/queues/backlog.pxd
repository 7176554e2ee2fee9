# The backlog of a queue, for the compiled kernel.


cdef class Backlog:
    cdef double _rate
    cdef double _since
    cdef long long _came
    cdef long long _taken
    cpdef count(self, long long came, long long taken)
    cpdef bint stands(self, long long ready, long long unacked, double now) except *
