# Where a large body is read, for the compiled kernel.
from routelog.log_backend.records.single_record cimport SingleRecord


cdef class BodyReceiver:
    cdef object _services
    cdef object _content
    cdef SingleRecord _record
    cdef int _channel
    cdef Py_ssize_t _left
    cdef Py_ssize_t _frame_limit
    cdef bytes _ended
    cpdef room(self)
    cpdef bint received(self, Py_ssize_t size) except *
    cdef bint _goes_on(self, bytes head) except *
