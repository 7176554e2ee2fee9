# The record under construction, for the compiled kernel.
from routelog.log_backend.records.record_batch cimport new_buffer


cdef class SingleRecord:
    cdef bytes _exchange
    cdef bytes _routing_key
    cdef bytes _properties
    cdef bytearray _payload
    cdef Py_ssize_t _body_bytes
    cdef Py_ssize_t _body_end
    cdef public Py_ssize_t missing
    cpdef room(self)
    cpdef in_room(self, Py_ssize_t first, Py_ssize_t end)
    cpdef filled(self, Py_ssize_t size)
