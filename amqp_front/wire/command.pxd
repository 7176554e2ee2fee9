# Commands, for the compiled kernel.


cdef class SettleRun:
    cdef readonly unsigned int channel
    cdef readonly int outcome
    cdef readonly unsigned long long first
    cdef readonly unsigned long long last
    cdef readonly bint multiple


cdef class PublishRun:
    cdef readonly unsigned int channel
    cdef readonly object source
    cdef readonly object rows
    cdef readonly Py_ssize_t count
    cdef readonly bytes exchange
    cdef readonly object routing_key
    cdef readonly bint mandatory
    cdef readonly bint immediate
    cdef readonly unsigned int property_flags
    cdef readonly bint persistent
    cpdef records(self, attributes, time)


cdef class LaidOutRun(PublishRun):
    cdef object _record
    cpdef records(self, attributes, time)
