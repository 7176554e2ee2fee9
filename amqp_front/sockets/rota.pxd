# Whose turn is next, for the compiled kernel.


cdef class Rota:
    cdef object _call_soon
    cdef object _cork
    cdef object _monotonic
    cdef object _late
    cdef object _again
    cdef object _waiting
    cdef object _lines
    cdef Py_ssize_t _waited
    cdef Py_ssize_t _few
    cdef Py_ssize_t _went_on
    cdef bint _too_many
    cdef double _began
    cdef bint _knows_began
    cdef public long long number
    cdef public bint is_under_way
    cpdef bint is_late(self, bint is_favoured) except *
    cpdef bint some_are_late(self) except *
    cpdef reached(self, long long weight)
    cpdef heard(self, long long nbytes)
