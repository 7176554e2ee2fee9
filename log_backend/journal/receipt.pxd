# What somebody waits for, and how far journals have come, for the compiled kernel.
cimport cython


cdef class Receipt


@cython.final
cdef class Progress:
    cdef readonly long long written
    cdef readonly long long durable
    cdef readonly long long late
    cdef public object around
    cdef public object latencies
    cdef object _call_soon
    cdef object _now
    cdef bint _has_failed
    cdef bint _is_scheduled
    cdef dict _for_written
    cdef dict _for_durable
    cdef object _due
    cdef Receipt _last
    cdef Receipt _measured
    cdef double _measured_since

    @cython.locals(last=Receipt)
    cpdef receipt(self, long long written, long long durable)

    @cython.locals(pair=Receipt, progress=Progress)
    cpdef wait(self, waiter, Receipt receipt)

    cdef _add(self, waiter, dict waiting, long long position)
    cpdef measure(self, Receipt receipt)


@cython.final
cdef class Receipt:
    cdef readonly Progress progress
    cdef readonly long long written
    cdef readonly long long durable
    cdef readonly Receipt more

    @cython.locals(progress=Progress)
    cpdef bint is_covered(self) except *

    @cython.locals(progress=Progress, is_there=cython.bint)
    cpdef bint is_late(self) except *

    @cython.locals(joined=Receipt)
    cpdef joined(self, Receipt other)

    cdef _with(self, Receipt pair)
